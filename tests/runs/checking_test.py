"""What is said of labelled examples before training: what was read, and what looks wrong."""

import numpy as np
import pytest

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.cli.toy_tasks import backbone

GOOD = [(f"the {a} {b}", label) for label, a in (("no", "dog"), ("yes", "cat")) for b in "abcdef"]


def doubts(rows, task="classify", dev=None):
    return tfnlp.check(rows, task, **({} if dev is None else {"dev": dev})).doubts


def changed(texts=(), labels=()):
    """The good rows, the first of which have other texts and labels."""
    rows = [list(row) for row in GOOD]
    for row, text in zip(rows, texts, strict=False):
        row[0] = text
    for row, label in zip(rows, labels, strict=False):
        row[1] = label
    return rows


def test_good_rows_give_no_doubts():
    assert doubts(GOOD) == []
    assert doubts(GOOD, dev=[("a new text", "no")]) == []
    tagged = [([f"dog{n}", "ran"], ["NOUN", "VERB"]) for n in range(9)]
    assert doubts(tagged, "tag") == []
    assert doubts([(f"a{n}", f"b{n}", n % 5) for n in range(20)], "similarity") == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (changed(["__label__x so good"]), "1 of 12 texts hold __label__"),
        ([(f"{label} {text}", label) for text, label in GOOD], "12 of 12 texts begin or end with"),
        ([(f"{text} {label}", label) for text, label in GOOD], "12 of 12 texts begin or end with"),
        (changed(labels=["rare"]), "1 classes or tags have one example: 'rare'"),
        ([(str(n), label) for n, (_, label) in enumerate(GOOD)], "12 of 12 texts 1 are a number"),
        ([(text, n) for n, (text, _) in enumerate(GOOD)], "the labels count the rows"),
        (changed(['"so good"', "['a text']"]), "2 of 12 texts stand in quotation marks"),
        (changed(['so ""good""', "b'a text'"]), "2 of 12 texts stand in quotation marks"),
        (changed(labels=['"no"', '"no"']), "the class '\"no\"' has quotation marks"),
        (changed(["nan", "None"]), "2 of 12 texts say that there is none"),
        (changed([" ", " "]), "2 rows have an empty text or label"),
    ],
)
def test_what_looks_wrong(rows, said):
    assert [doubt for doubt in doubts(rows) if said in doubt]


def test_texts_to_measure_on_that_are_learnt():
    assert doubts(GOOD, dev=[*GOOD[:3], ("a new text", "no")]) == [
        "3 of 4 examples to measure on have texts that are learnt from"
    ]


def test_what_was_read(tmp_path, capsys):
    path = tmp_path / "a.tsv"
    path.write_text('id\ttext\tlabel\n1\t"said ""no"""\tno\n2\ta cat\tyes\n3\ta dog\tyes\n')
    assert command("check", path, "classify") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        f"{path}: 3 examples of classify",
        "text 'text'; label 'label'; columns 'id', 'text', 'label'; quotation marks enclose fields",
        "2 classes or tags: 'yes' 2, 'no' 1",
    ]
    assert lines[3].split("  -> ") == ['  said "no"', "'no'"]
    assert lines[-1] == "looks wrong: 1 classes or tags have one example: 'no'"
    path.write_text('text\tlabel\nhe said "no"\tno\na cat\tyes\n')
    read = tfnlp.check(str(path), "classify").lines[1]
    assert read.endswith("columns 'text', 'label'; quotation marks are characters of the texts")
    lines = tfnlp.check(str(path)).lines  # of every task
    found = {line.split()[0]: line.split()[1] for line in lines[:-1]}
    assert (found["classify"], found["similarity"], found["answer"]) == ("2", "no:", "no:")


def test_texts_as_a_model_reads_them():
    model = backbone("bert", None)
    rows = [("The dog RAN " * 9, "no"), ("a cat", "yes"), ("Zyx", "yes")]
    found = tfnlp.check(rows, "classify", model=model, max_length=8)
    assert "1 of 3 are longer than max_length 8" in found.lines
    tokenizer = tfnlp.load(model).tokenizer
    for text, line in zip(["The dog RAN " * 9, "a cat"], found.lines[-3:], strict=False):
        ids = tokenizer.tokenize([text]).numpy()[0][:8]
        want = tokenizer.detokenize(np.array([ids])).numpy()[0].decode()
        assert line.strip().startswith(want) and want == want.lower()


def test_what_can_not_be_checked_is_one_line(tmp_path, capsys):
    for arguments, said in (
        (("nope", "classify"), "no such file: nope"),
        (("nope",), "no such file: nope"),
        ((tmp_path, "classify"), "is a folder"),
        (("nope", "fill"), "task 'fill' must be one of classify"),
        (("nope", "clasify"), "task 'clasify' must be one of classify"),
    ):
        assert command("check", *arguments) == 1
        assert said in error(capsys)
