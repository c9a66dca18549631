"""Examples with any number of labels, in all their formats."""

import gzip

import numpy as np
import pytest

from tfnlp.data import TaskExample
from tfnlp.tasks import Labels

WANT = [TaskExample(("a b",), ("x", "y")), TaskExample(("c",), ()), TaskExample(("d",), ("y",))]
BITS = "id,text,y,x,votes\n7,a b,1,1,3\n8,c,0,0,0\n9,d,1,0,1\n"


@pytest.mark.parametrize(
    "name, text, found",
    [
        ("a.jsonl", '{"text": "a b", "labels": ["y", "x"]}\n{"text": "c", "labels": []}\n'
         '{"text": "d", "labels": ["y", "y"]}\n', {}),
        ("a.jsonl", '{"text": "a b", "label": "y|x"}\n{"text": "c", "label": null}\n'
         '{"text": "d", "label": "y"}\n', {"separator": "|"}),
        ("a.tsv", "sentence\tlabels\na b\ty; x\nc\t\nd\ty;\n", {"separator": ";"}),
        ("a.csv", 'text,labels\na b,"y,x"\nc,\nd,y\n', {"separator": ","}),
        ("a.csv", BITS, {"label_columns": ["y", "x"]}),
        ("a.txt", "__label__y __label__x a b\nc\n__label__y d\n", {}),
        ("a.txt", "a b __label__x __label__y\nc\n d\t__label__y\n", {}),
        ("a.txt", "__label__x a __label__y b\nc\n__label__y\td\n", {}),
    ],
)  # fmt: skip
def test_files_of_each_format(tmp_path, name, text, found):
    (tmp_path / name).write_text(text)
    data = Labels.read(tmp_path / name)
    assert data.examples == WANT and data.labels_as == found
    with gzip.open(tmp_path / f"{name}.gz", "wt") as file:
        file.write(text)
    assert Labels.read(tmp_path / f"{name}.gz").examples == WANT


def test_a_separator_or_columns_that_are_named(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabels\na b\ty, z;x\nd\tx\n")
    named = Labels.read(tmp_path / "a.tsv", separator=";").examples
    assert [e.label for e in named] == [("x", "y, z"), ("x",)]
    (tmp_path / "b.csv").write_text(BITS)
    assert [e.label for e in Labels.read(tmp_path / "b.csv", label=["x"]).examples] == [
        ("x",), (), (),
    ]  # fmt: skip
    (tmp_path / "c.tsv").write_text("a b\t1\t0\nc\t0\t1\n")
    numbered = Labels.read(tmp_path / "c.tsv", text=0, label=[1, 2]).examples
    assert [e.label for e in numbered] == [("1",), ("2",)]


def test_further_files_are_read_as_the_first(tmp_path):
    """In the second all votes happen to be 0 or 1, and no cell has two labels."""
    (tmp_path / "a.csv").write_text(BITS)
    (tmp_path / "b.csv").write_text("id,text,y,x,votes\n1,e,1,0,1\n")
    data = Labels.read([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert data.examples[-1] == TaskExample(("e",), ("y",))


def test_comments_of_jigsaw_whose_labels_are_not_known_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("id,comment_text,toxic\n1,a,1\n2,b,-1\n3,c,0\n")
    data = Labels.read(tmp_path / "a.csv")
    assert [e.label for e in data.examples] == [("toxic",), ()]
    assert len(data.skipped) == 1 and "not known" in data.skipped[0]


def test_python_rows(tmp_path):
    rows = [("a b", ["y", "x"]), ("c", []), ("d", ["y"])]
    assert Labels.read(rows).examples == WANT
    frame = {"text": ["a b", "c", "d"], "y": np.array([1, 0, 1]), "x": [True, False, False]}
    assert Labels.read(frame).examples == WANT
    nan = {"text": ["a b", "c", "d"], "labels": ["y|x", float("nan"), "y"]}  # pandas' empty cell
    assert Labels.read(nan).examples == WANT
    assert Labels.read(WANT).examples == WANT
    pair = Labels.read([("a", "b", ["x"])]).examples
    assert pair == [TaskExample(("a", "b"), ("x",))]
    unlabelled = Labels.read([("a", "b")], labelled=False).examples
    assert unlabelled == [TaskExample(("a", "b"), None)]


@pytest.mark.parametrize(
    "text, options, message",
    [
        ("text,y\na,2\n", {}, "no column of labels .* and none of 0 and 1 alone"),
        ("text,y\na,1\nb,2\n", {"label": ["y"]}, "line 3: column 'y' must be 0 or 1; got '2'"),
        ("text,y\na,1\n", {"label": ["z"]}, "has no 'z'"),
        ("text,y\na,1\n", {"label": "z"}, "no column 'z'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, options, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        Labels.read(tmp_path / "a.csv", **options)
    unlabelled = Labels.read(tmp_path / "a.csv", labelled=False, **options)
    assert unlabelled.examples[0].segments == ("a",)


def test_labels_that_are_no_names_are_refused():
    for labels in ([["x"]], [True], {"x": 1}, [" "]):
        with pytest.raises(ValueError, match="train, row 0: "):
            Labels.read([("a", labels)], name="train")
