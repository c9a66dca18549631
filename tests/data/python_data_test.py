"""Texts and labelled rows given as Python objects."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tfnlp.data import (
    Question,
    TaggedSentence,
    TaskExample,
    WordCorpus,
    documents_of,
    frequent_words,
    read_documents,
    split_documents,
)
from tfnlp.tasks import TASKS, Classify

TEXTS = ["Rain fell. It was cold.", "Snow fell."]
DOCUMENTS = [["Rain fell.", "It was cold."], ["Snow fell."]]


@pytest.mark.parametrize(
    "text",
    [
        TEXTS,
        DOCUMENTS,
        [("Rain  fell.", " ", "It\nwas cold."), ["Snow fell."], []],
        tf.data.Dataset.from_tensor_slices({"text": tf.ragged.constant(DOCUMENTS)}),
    ],
    ids=lambda text: type(text).__name__,
)
def test_documents_of_python_objects(text):
    assert list(documents_of(text)) == DOCUMENTS


def test_documents_in_other_layouts_and_columns():
    words = {"body": ["Rain\nfell\n\nIt\nwas\n\n\ncold"]}
    assert list(documents_of(words, "words", column="body")) == [["Rain fell", "It was", "cold"]]
    assert list(documents_of(TEXTS, "lines")) == [[text] for text in TEXTS]
    assert list(documents_of(TEXTS, paragraphs=True)) == [[text] for text in TEXTS]


def test_paths_and_texts_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a b.txt", "plain text"):
        pathlib.Path(name).write_text("Rain fell.\nIt was cold.\n\nSnow fell.\n")
        for given in (name, [name], [pathlib.Path(name)], (n for n in [name])):
            assert list(documents_of(given)) == DOCUMENTS
    assert list(documents_of("a*.txt")) == list(documents_of(["a*.txt"])) == DOCUMENTS
    for book in ("book:the_secret_garden", ["book:the_secret_garden"]):
        assert next(documents_of(book)) == next(read_documents("book:the_secret_garden"))
    for missing in ("no.txt", ["no.txt"], ["no such.txt"], ["word"], ["a b.txt", "no such.txt"]):
        with pytest.raises(FileNotFoundError, match="no such file: "):
            documents_of(missing)
    with pytest.raises(FileNotFoundError, match=r"no file matches no \*\.gz"):
        documents_of(["no *.gz"])
    with pytest.raises(ValueError, match=r"holds files \('a b.txt'\) and texts \('Rain fell.'\)"):
        documents_of(["a b.txt", "Rain fell."])


@pytest.mark.parametrize(
    "text, message",
    [
        ("Rain.\nSnow.", "valid is a string with line breaks"),
        ({"text": ["Rain."], "y": []}, "valid: the columns"),
        ({"text": ["Rain.", None]}, "valid, row 1"),
        ([b"\xff"], "valid, row 0"),
        ({"text": [" ", "\n"]}, "no text in valid"),
    ],
)
def test_wrong_texts(text, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        list(documents_of(text, name="valid"))
    with pytest.raises(ValueError, match="layout must be one of"):
        documents_of(TEXTS, "sentences")


def test_corpora_of_letters_are_refused():
    for documents, where in [([["fine"], "a string"], r"documents\[1\]"), ("a", "documents")]:
        with pytest.raises(ValueError, match=f"^{where} is a string"):
            split_documents(documents, 0.5, seed=0)
    for build in (lambda sentences: WordCorpus.build(sentences, ["a"]), frequent_words):
        for sentences in ("a string", [["a"]]):
            with pytest.raises(ValueError, match="^sentences"):
                build(sentences)


def classes(*rows):
    return [TaskExample((text,), label) for text, label in rows]


GOOD = classes(("so good", "yes"), ("bad", "no"))
COLUMNS = {"text": ["so good", "bad"], "label": ["yes", "no"]}
SQUAD = {"question": "Who?", "context": "It was I.", "answers": [{"text": "I", "answer_start": 7}]}


@pytest.mark.parametrize(
    "task, data, expected",
    [
        ("classify", [("a", "b", 1)], [TaskExample(("a", "b"), 1)]),
        ("classify", [["a ", " no"]], [TaskExample(("a",), "no")]),
        ("classify", {"premise": ["a"], "hypothesis": ["b"], "label": np.array([1])},
         [TaskExample(("a", "b"), 1)]),
        ("similarity", [("a", "b", np.float32(2.5))], [TaskExample(("a", "b"), 2.5)]),
        ("similarity", {"sentence1": ["a"], "sentence2": ["b"], "score": ["2.5"]},
         [TaskExample(("a", "b"), 2.5)]),
        ("choose", [("a", ["b", "c"], np.int64(1))], [TaskExample(("a",), 1, ("b", "c"))]),
        ("choose", [{"context": "a", "question": "q", "choices": ("b", "c"), "label": 0}],
         [TaskExample(("a q",), 0, ("b", "c"))]),
        ("answer", [SQUAD, {**SQUAD, "id": "x", "answers": []}],
         [Question("0", "Who?", "It was I.", (("I", 7),)), Question("x", "Who?", "It was I.")]),
        ("answer", [tuple(SQUAD.values())], [Question("0", "Who?", "It was I.", (("I", 7),))]),
        ("answer", [("Who?", "It was I.", {"text": ["I"], "answer_start": [7]})],
         [Question("0", "Who?", "It was I.", (("I", 7),))]),
        ("answer", [{**SQUAD, "answers": {"text": ["I"], "answer_start": np.array([7])}}],
         [Question("0", "Who?", "It was I.", (("I", 7),))]),
        ("tag", [(["A", "dog"], ("DET", "NOUN"))], [TaggedSentence(("A", "dog"), ("DET", "NOUN"))]),
        ("tag", {"tokens": [["A"]], "ner_tags": [np.array([3])]}, [TaggedSentence(("A",), ("3",))]),
        ("tag", tf.data.Dataset.from_tensors((tf.constant(["A"]), tf.constant(["DET"]))),
         [TaggedSentence(("A",), ("DET",))]),
    ],
)  # fmt: skip
def test_rows_of_each_task(task, data, expected):
    assert TASKS[task].read(data).examples == expected
    assert TASKS[task].read(expected).examples == expected


@pytest.mark.parametrize(
    "task, data, expected",
    [
        ("classify", ["a.tsv", "b"], [TaskExample(("a.tsv",), None), TaskExample(("b",), None)]),
        ("classify", [("a", "b")], [TaskExample(("a", "b"), None)]),
        ("classify", [("a", 1)], [TaskExample(("a",), 1)]),
        ("similarity", [("a", "b", None)], [TaskExample(("a", "b"), None)]),
        ("choose", [("a", ["b", "c"])], [TaskExample(("a",), None, ("b", "c"))]),
        ("answer", [("Who?", "I.")], [Question("0", "Who?", "I.")]),
        ("tag", ["A dog."], [TaggedSentence(("A", "dog", "."), None, text="A dog.")]),
        ("tag", {"text": ["A dog"]}, [TaggedSentence(("A", "dog"), None, text="A dog")]),
        ("tag", [["A", "dog."]], [TaggedSentence(("A", "dog."), None)]),
    ],
)
def test_rows_to_predict_need_no_label(task, data, expected):
    assert TASKS[task].read(data, labelled=False).examples == expected


def test_columns_of_rows():
    row = {"a": "so good", "b": "x", "c": "yes"}
    want = classes(("so good", "yes"))
    assert Classify.read([row], text="a", label="c").examples == want
    assert Classify.read([tuple(row.values())], text=0, label=2).examples == want
    dropped = Classify.read([*zip(*COLUMNS.values(), strict=True), ("b", "-")])
    assert dropped.examples == GOOD and len(dropped.skipped) == 1


def test_paths_globs_and_read_examples(tmp_path):
    for name in "ab":
        rows = [{"text": name, "label": "x"}]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    want = classes(("a", "x"), ("b", "x"))
    paths = [tmp_path / "a.jsonl", str(tmp_path / "b.jsonl")]
    for given in (paths, tmp_path / "*.jsonl", [str(tmp_path / "*.jsonl")]):
        assert Classify.read(given).examples == want
    unlabelled = Classify.read([tmp_path / "a.jsonl"], labelled=False)
    assert unlabelled.examples == want[:1]
    assert Classify.read(unlabelled).examples == want[:1]
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.csv"):
        Classify.read(str(tmp_path / "*.csv"))


@pytest.mark.parametrize(
    "task, data, message",
    [
        ("classify", [], "train"),
        ("classify", 3, "train must be"),
        ("classify", [("a", "x"), ("b",)], "train, row 1: has 1 fields"),
        ("classify", [("a", "x"), {"text": "b"}], "train, row 1: expected a tuple"),
        ("classify", {"text": ["a"], "label": [np.nan]}, "train, row 0: its label"),
        ("classify", {"text": ["a"], "y": ["x"]}, "train: no label column"),
        ("classify", [(b"\xff", "x"), ("a", "x")], "train, row 0"),
        ("classify", ["a.tsv", ("a", "x")], "train: .*row 1"),
        ("classify", [TaskExample(("a",), None)], "train, row 0: has no label"),
        ("tag", [TaskExample(("a",), "x")], "train, row 0: .*TaggedSentence"),
    ],
)  # fmt: skip
def test_wrong_rows(task, data, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        TASKS[task].read(data, name="train")


def test_bad_rows_are_skipped_on_request():
    data = [b"\xff", ("a", "x"), ("", "x"), ("b", "y", "z"), ("c", "y")]
    found = Classify.read(data, name="dev", skip=True)
    assert found.examples == classes(("a", "x"), ("c", "y"))
    assert [why.split(":")[0] for why in found.skipped] == [f"dev, row {n}" for n in (0, 2, 3)]
