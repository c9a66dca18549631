"""Files of labelled examples that can't be read, whole or in part."""

import gzip

import pytest

from tests.data.task_files import CONLLU, COPA, ask, squad, write
from tfnlp.tasks import TASKS

GOOD = "sentence1\tsentence2\tlabel\na\tb\t1\n"

BAD = [  # task, name, content, where, why, how many good ones beside it
    ("classify", "a.tsv", GOOD + "a\tb\n", "line 3", "has no 'label'", 1),
    ("classify", "a.tsv", GOOD + "a\tb\t1\t2\n", "line 3", "has 4 fields where the header", 1),
    ("classify", "a.tsv", GOOD + "a\t \t1\n", "line 3", "text 'sentence2' is empty", 1),
    ("similarity", "a.tsv", GOOD + "\na\tb\tx\n", "line 4", "score must be a number; got 'x'", 1),
    ("classify", "a.csv", 'text,label\n"a\nb",1\n"c"d,1\ne,2\n', "line 4", "not valid CSV", 2),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{"text"\n', "line 2", "not valid JSON", 1),
    ("classify", "a.jsonl", '[3]\n{"text": "a", "label": 1}', "line 1", "expected a JSON obj", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{"text": 5, "label": 1}', "line 2",
     "text 'text' must be a text; got 5", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{"text": "\\ud800", "label": 1}', "line 2",
     "half of a surrogate pair", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": [1]}', "line 2",
     "its label must be a name", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n' + "[" * 100_000, "line 2",
     "not valid JSON", 1),
    ("choose", "a", "o\ta\tb\tc\t2\no\ta\tb\tc\t1\n", "line 1", "index of one of 2 choices", 1),
    ("choose", "a.jsonl", '{"context": "a", "choices": ["b", "c"], "label": 0}\n'
     '{"context": "a", "choices": ["b"], "label": 0}', "line 2", "expected two or more choices", 1),
    ("choose", "a.jsonl", '{"context": "a", "choices": ["b", "c"], "label": 0}\n'
     '{"context": "a", "choices": ["b", "c"], "label": true}', "line 2", "must be the index", 1),
    ("choose", "a", "o\ta\tb\t0\no\ta\tb\tc\t1\n", "line 1", "expected category, text, two or", 1),
    ("choose", "a.xml", COPA.replace('"effect"', '"both"'), "line 10", "expected asks-for", 1),
    ("choose", "a.xml", COPA.replace("<p>It rained.</p>", ""), "line 10", "expected the texts", 1),
    ("tag", "a.conll", "a\tO\n\nb\tO\nc\nd\tO\n\ne\tO\n", "line 4", "expected 2 columns", 2),
    ("tag", "a.conllu", CONLLU + "\n\n1\tA\n", "line 9", "the ten columns of CoNLL-U", 2),
    ("tag", "a.conllu", CONLLU + "\n\nx\tA" + "\t_" * 8, "line 9", "'x' is not an ID", 2),
    ("tag", "a.conllu", CONLLU + "\n\n1\tA" + "\t_" * 8, "line 9", "'A' has no upos", 2),
    ("tag", "a.jsonl", '{"words": ["a"], "tags": []}\n{"words": ["a"], "tags": ["O"]}', "line 1",
     "a list of 1 tags, one for each word; got 0 tags", 1),
    ("answer", "a.json", squad(ask(), ask("q2", [(5, "cat")])), "question 'q2'",
     "the answer 'cat' is not at character 5 of its context, where 'at ' stands", 1),
    ("answer", "a.json", squad(ask(), ask()), "question 'q1'", "the same id", 1),
    ("answer", "a.json", squad(ask(), ask("q2", ())), "question 'q2'", "has no answers", 1),
    ("answer", "a.json", squad(ask(), ask("q2", (), is_impossible=False), version="v2.0"),
     "question 'q2'", "has no answers", 1),
    ("answer", "a.json", squad(ask(), ask("q2", is_impossible=True)), "question 'q2'",
     "has answers and is_impossible", 1),
    ("answer", "a.json", squad(ask(), {"question": "b"}), "article 1, paragraph 1, question 2",
     "its id must be a text", 1),
]  # fmt: skip


@pytest.mark.parametrize("task, name, content, where, why, good", BAD)
def test_bad_rows_stop_or_are_written_down(tmp_path, task, name, content, where, why, good):
    path = write(tmp_path, content, name)
    with pytest.raises(ValueError) as caught:
        TASKS[task].read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}, {where}: ") and why in message and "\n" not in message
    data = TASKS[task].read(path, skip=True)
    assert data.skipped == [message] and len(data.examples) == good


@pytest.mark.parametrize(
    "task, name, content, message",
    [
        ("classify", "a.tsv", "", "a.tsv"),
        ("classify", "a.jsonl", "{\n[", "none of its 2 rows .*line 1"),
        ("classify", "a.tsv", "text\tlabel\na\n\nb\n", "none of its 2 rows .*line 2"),
        ("classify", "a.tsv", "x\ty\n1\t2\n", "text columns .*'x', 'y'"),
        ("classify", "a.tsv", "text\ty\n1\t2\n", "label column"),
        ("classify", "a.tsv", "text\tlabel\ttext\n1\t2\t3\n", "two columns 'text'"),
        ("classify", "a.txt", b"1 a\n1 \xe4\n", "after line 1"),
        ("choose", "a.xml", "<a>\n<b>\n</a>", "line 3"),
        ("tag", "a.conll", "a\nb\n", "2 or more columns .*have 1"),
        ("answer", "a.json", '{"data":\n [,]}', "a.json, line 2"),
        ("answer", "a.json", '{"data": [{}]}', "article 1"),
    ],
)
def test_files_without_any_example(tmp_path, task, name, content, message):
    with pytest.raises(ValueError, match=message):
        TASKS[task].read(write(tmp_path, content, name), skip=True)


def test_wrong_paths(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"1 good\n" * 1000)[:-9])
    for task in ("classify", "answer", "tag"):
        for paths, error, message in (
            (str(tmp_path / "absent"), FileNotFoundError, "absent"),
            (str(tmp_path), IsADirectoryError, str(tmp_path)),
            (str(path), OSError, "a.jsonl.gz"),
            ([], ValueError, "empty"),
        ):
            with pytest.raises(error, match=message):
                TASKS[task].read(paths)


@pytest.mark.parametrize(
    "task, arguments, message",
    [
        ("classify", {"text": ["a", 1], "label": 0}, "all names"),
        ("classify", {"text": -1}, "column .* -1"),
        ("classify", {"text": [0, 1, 2], "label": 2}, "text"),
        ("classify", {"label": 1}, "text, a number"),
        ("classify", {"text": "z"}, "'z'"),
        ("classify", {"text": 5, "label": 1}, "line 1: expected 6"),
        ("classify", {"drop": "-"}, "drop"),
        ("choose", {"text": "a"}, "text"),
        ("tag", {"text": [0, 1]}, "text"),
        ("tag", {"label": 7}, "8 or more columns"),
        ("answer", {"label": "x"}, "no columns"),
    ],
)
def test_wrong_arguments(tmp_path, task, arguments, message):
    with pytest.raises(ValueError, match=message):
        TASKS[task].read(write(tmp_path, "a\tlabel\nb\t1\n", "a.tsv"), **arguments)
