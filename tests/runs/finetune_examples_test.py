"""What is said of examples that are not read as they are: rows, labels, texts."""

import pathlib

from tfnlp.data import TaggedSentence, TaskExample
from tfnlp.runs.finetune_examples import read_data, say_cut, say_labels, shown_source
from tfnlp.settings.use import ColumnSettings
from tfnlp.tasks import Answer, Classify, Similarity, Tag


def classes(labels):
    return [TaskExample(("text",), label) for label in labels]


def test_rows_that_are_left_out(tmp_path, capsys):
    path = tmp_path / "snli.jsonl"
    row = '{"premise": "a", "hypothesis": "b", "gold_label": "%s"}\n'
    path.write_text(row % "yes" + row % "-" + "{}\n" + row % "no")
    config = ColumnSettings(skip_bad_rows=True)
    assert len(read_data(Classify.form, path, config, "train").examples) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{path}: 2 of 4 rows left out") and f"{path}, line 2" in said
    rows = [("a", "yes"), ("", "no")]
    read_data(Classify.form, rows, config, "train")
    assert capsys.readouterr().err.startswith("rows: 1 of 2 rows left out")


def test_what_was_understood_of_tags_is_said(tmp_path, capsys):
    path = tmp_path / "train.txt"
    path.write_text("1\tso\tO\n\n1\tin\tO\n2\tNew\tB-A\n3\tYork\tI-A\n4\t!\tO\n")
    read_data(Tag.form, path, ColumnSettings(), "train")
    assert capsys.readouterr().err == (
        f"{path}: words in column 1, tags in column 2 of 0 to 2; BIO tags of 1 entities; "
        "New/B-A York/I-A !/O\n"
    )
    read_data(Tag.form, path, ColumnSettings(), "rows", labelled=False)
    assert not capsys.readouterr().err


def test_columns_that_hold_no_classes(capsys):
    rows = [("a text", str(number)) for number in range(21)]
    read_data(Classify.form, rows[:20], ColumnSettings(), "train")
    read_data(Classify.form, rows, ColumnSettings(), "rows", labelled=False)
    assert not capsys.readouterr().err
    read_data(Classify.form, rows, ColumnSettings(), "train")
    said = "rows: 21 different labels of 21 examples; is the label in the right column?\n"
    assert capsys.readouterr().err == said


def test_labels_that_never_occur(capsys):
    spec = Classify(labels=("no", "perhaps", "yes"))
    say_labels("dev.tsv", spec, classes(["no", "no"]))
    said = capsys.readouterr().err
    assert "2 of 3 labels" in said and said.endswith(": perhaps, yes\n")
    say_labels("dev.tsv", spec, classes(spec.labels))
    say_labels("dev.tsv", Similarity(), classes([1.0]))
    assert not capsys.readouterr().err
    tags = [TaggedSentence(("a", "b", "c"), tags) for tags in (["O", "B-x", "B-y"], ["O"] * 3)]
    say_labels("dev.conll", Tag(labels=("B-z", "O")), tags)
    absent, unknown = capsys.readouterr().err.splitlines()
    assert "1 of 2 labels" in absent and absent.endswith(": B-z")
    assert "2 of 6 labels" in unknown and unknown.endswith(": B-x, B-y")


def test_texts_that_are_cut(capsys):
    say_cut("dev.tsv", Classify(labels=("no", "yes"), max_length=12), 312, 1872)
    assert "312 of 1,872 examples are longer than max_length 12" in capsys.readouterr().err
    say_cut("dev.json", Answer(max_length=12, stride=3, max_question=5), 1, 2)
    assert "1 of 2 examples are longer than max_question 5" in capsys.readouterr().err
    say_cut("dev.tsv", Similarity(), 0, 2)
    assert not capsys.readouterr().err


def test_how_sources_are_named(tmp_path):
    path = tmp_path / "a[1].tsv"
    path.write_text("")
    for source, shown in (
        (str(path), str(path)),
        (path, str(path)),
        ([path, "tfds:glue/sst2"], f"{path} tfds:glue/sst2"),
        ([str(path)] * 5, f"{path} {path} {path} and 2 more"),
        ("x" * 5000, "rows"),
        ([("a", "yes")], "rows"),
        ([], "rows"),
    ):
        assert shown_source(source) == shown
    assert shown_source(pathlib.Path("gone.tsv")) == "gone.tsv"
