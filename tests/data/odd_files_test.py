"""Files as other programs write them: read if it is clear what they mean, else named."""

import csv
import gzip
import json

import pandas
import pytest

from tests.data.task_files import write
from tfnlp.tasks import TASKS, Answer, Choose, Embed, Labels, Tag

ROWS = [{"sentence": "a film", "label": "good"}, {"sentence": "no\nfilm", "label": "bad"}]
TEXTS = [(("a film",), "good"), (("no\nfilm",), "bad")]
QUESTION = {"question": "who?", "context": "a dog ran"}
ANSWERS = {"text": ["dog"], "answer_start": [2]}


def texts_of(path, task="classify"):
    return [(e.segments, e.label) for e in TASKS[task].read(path).examples]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", json.dumps(ROWS)),
        ("a.json", json.dumps(ROWS, indent=2)),
        ("a.jsonl", "\n" + json.dumps(ROWS)),
        ("a.json", json.dumps({"version": "1", "data": ROWS, "ids": [1, 2]}, indent=1)),
        ("a.json", "\ufeff" + json.dumps(ROWS)),
        ("a.csv", '\ufeffSentence,LABEL\r\na film,good\r\n\r\n"no\nfilm",bad\r\n'),
        ("a.csv", 'Label,label,sentence\nx,good,a film\ny,bad,"no\nfilm"\n'),
    ],
)
def test_tables_of_other_programs(name, content, tmp_path):
    assert texts_of(write(tmp_path, content, name)) == TEXTS


SAID = [
    'She said "yes" to it', '"No," he said.', "two\nlines", "a\ttab", '"', "plain", '"wow"',
    "a\n\nb",
]  # fmt: skip


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("texts", [SAID, SAID[:1], SAID[2:3], SAID[3:4], SAID[4:6], SAID[5:]])
def test_tables_with_tabs_that_pandas_wrote(tmp_path, texts, quoting):
    rows = pandas.DataFrame({"text": texts, "label": ["x"] * len(texts)})
    path = tmp_path / "a.tsv"
    rows.to_csv(path, sep="\t", index=False, quoting=quoting)
    assert texts_of(path) == [((text,), "x") for text in texts]
    assert TASKS["classify"].read(path, skip=True).skipped == []
    rows.loc[len(rows)] = ["last", "x"]
    rows.to_csv(path, sep="\t", index=False, header=False, quoting=quoting)
    read = TASKS["classify"].read(path, text=0, label=1).examples
    assert [e.segments[0] for e in read] == [*texts, "last"]


@pytest.mark.parametrize(
    "texts",
    [
        ['"Yes," he said.', "no"],
        ['"wow"', '"great"'],  # nothing says that these marks are not the text's own
        ['"Yes', 'he said"'],
        ['He said ""yes', "no"],
        ['12" and', '14" screens'],
        ['"I said ""no"" to it" again', "no"],
        ['"', "no"],
    ],
)
def test_quotation_marks_that_are_plain_characters(tmp_path, texts):
    lines = [f"{text}\tx\n" for text in texts]
    path = write(tmp_path, "text\tlabel\n" + "".join(lines), "a.tsv")
    assert texts_of(path) == [((text,), "x") for text in texts]


def test_choices_between_tabs_in_quotation_marks(tmp_path):
    rows = pandas.DataFrame([["o", 'He "ran".', "off", "a\nway", "1"], ["o", "I", "a", "b", "0"]])
    rows.to_csv(tmp_path / "a.tsv", sep="\t", index=False, header=False)
    read = Choose.read(tmp_path / "a.tsv").examples
    assert [(e.segments, e.choices, e.label) for e in read] == [
        (('He "ran".',), ("off", "a\nway"), 1),
        (("I",), ("a", "b"), 0),
    ]


def test_questions_one_by_one(tmp_path):
    rows = [{**QUESTION, "answers": ANSWERS}, {**QUESTION, "id": "x", "answers": []}]
    for name, content in (
        ("a.jsonl", "\n".join(map(json.dumps, rows))),
        ("a.json", json.dumps(rows)),
        ("b.json", json.dumps({"data": rows})),
    ):
        first, second = Answer.read(write(tmp_path, content, name)).examples
        assert (first.id, first.context, first.answers) == ("0", "a dog ran", (("dog", 2),))
        assert (second.id, second.answers) == ("x", ())
    bad = {**QUESTION, "answers": {"text": ["dog"], "answer_start": []}}
    path = write(tmp_path, json.dumps(rows[0]) + "\n" + json.dumps(bad), "c.jsonl")
    with pytest.raises(ValueError, match="c.jsonl, question '1': the lists of answers have"):
        Answer.read(path)
    assert len(Answer.read(path, skip=True).skipped) == 1


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def table(name, rows):
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / name)
        return tmp_path / name

    assert texts_of(table("a.parquet", ROWS)) == TEXTS
    path = table("b.parquet", [{"context": "a", "choices": ["b", "c"], "label": 1}])
    (example,) = Choose.read(path).examples
    assert (example.choices, example.label) == (("b", "c"), 1)
    path = table("c.parquet", [{"tokens": ["a", "dog"], "ner_tags": [0, 3]}])
    assert Tag.read(path).examples[0].tags == ("0", "3")
    path = table("d.parquet", [{**QUESTION, "answers": ANSWERS}])
    assert Answer.read(path).examples[0].answers == (("dog", 2),)
    path = table("l.parquet", [{"text": "a b", "labels": ["y", "x"]}, {"text": "c", "labels": []}])
    assert [e.label for e in Labels.read(path).examples] == [("x", "y"), ()]
    path = table("e.parquet", [{"anchor": "a", "positive": "b"}])
    assert Embed.read(path).examples[0].segments == ("a", "b")
    with pytest.raises(ValueError, match="row 2: text 'sentence' must be a text; got None"):
        texts_of(table("f.parquet", [*ROWS[:1], {"sentence": None, "label": "x"}]))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="e.parquet is not a Parquet file, or damaged"):
        texts_of(path)
    path.rename(tmp_path / "g.tsv")
    with pytest.raises(ValueError, match="g.tsv is a Parquet file; its name must end in .parquet"):
        texts_of(tmp_path / "g.tsv")


@pytest.mark.parametrize(
    ("task", "name", "content", "message"),
    [
        ("classify", "a.tsv", gzip.compress(b"a", mtime=0), "gzip"),
        ("classify", "a.csv", b"PK\x03\x04ab", "a ZIP archive or an Excel sheet"),
        ("classify", "a.csv", "text;label\na;b\n", "fields of .csv are separated by"),
        ("classify", "a.txt", "a film\tgood\nno film\tbad\n", "between tabs"),
        ("classify", "a.json", '{"a": [1], "b": [2]}', "a.json: no text columns"),
        ("answer", "a.json", '[{"question": "a"}]', "SQuAD"),
    ],
)  # fmt: skip
def test_what_a_file_is_instead(task, name, content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        TASKS[task].read(write(tmp_path, content, name))


def test_lines_with_some_tabs_are_texts(tmp_path):
    path = write(tmp_path, "good a\tfilm\nbad no film\n", "a.txt")
    assert texts_of(path) == [(("a\tfilm",), "good"), (("no film",), "bad")]
