"""What is said of examples that are not read as they are: rows, labels, texts."""

import collections

import pytest

from tfnlp.data import TaggedSentence, TaskExample
from tfnlp.runs.finetune_examples import (
    held_out,
    read_data,
    read_parts,
    say_labels,
    say_unmeasured,
)
from tfnlp.runs.finetune_recipe import measured_by, metric_of
from tfnlp.settings.tables import TASKS as SETTINGS
from tfnlp.settings.tasks import TagSettings
from tfnlp.settings.use import ColumnSettings
from tfnlp.tasks import Classify, Labels, Similarity, Tag


def classes(labels):
    return [TaskExample(("text",), label) for label in labels]


def test_rows_that_are_left_out(tmp_path, capsys):
    path = tmp_path / "snli.jsonl"
    row = '{"premise": "a", "hypothesis": "b", "gold_label": "%s"}\n'
    path.write_text(row % "yes" + row % "-" + "{}\n" + row % "no")
    config = ColumnSettings(skip_bad_rows=True)
    assert len(read_data(Classify.form, path, config, "train").examples) == 2
    said = capsys.readouterr().err
    assert f"{path}: 2 of 4 rows left out" in said and f"{path}, line 2" in said
    rows = [("a", "yes"), ("", "no")]
    read_data(Classify.form, rows, config, "train")
    assert "rows: 1 of 2 rows left out" in capsys.readouterr().err


def test_what_was_understood_of_rows_and_columns_that_hold_no_classes_are_said(capsys):
    tagged = [(["in", "New", "York"], ["O", "B-A", "I-A"])] * 2
    rows = [("a text", str(number)) for number in range(21)]
    for form, some, said in (
        (Tag.form, tagged, "rows: BIO tags of 2 entities; in/O New/B-A York/I-A\n"),
        (Classify.form, rows[:20], ""),
        (Classify.form, rows, "rows: 21 different labels of 21 examples; is the label in"),
    ):
        read_data(form, some, ColumnSettings(), "rows", labelled=False)
        assert not capsys.readouterr().err
        read_data(form, some, ColumnSettings(), "train")
        found = capsys.readouterr().err
        assert found.startswith(said) and bool(found) == bool(said)


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


def test_what_no_example_has_picks_no_checkpoint(capsys):
    task, config = Tag(labels=("B-x", "O")), TagSettings(model="m", train="t", output="o")
    none, some = (TaggedSentence(("a", "b"), tags) for tags in (("O", "O"), ("O", "B-x")))
    assert metric_of(config, task, [none, some]) == "f1"
    assert metric_of(config, task, [none]) == measured_by(task, [none], "f1") == "accuracy"
    say_unmeasured("dev.conll", task, ["accuracy"])
    assert "dev.conll: no example has what f1 measures" in capsys.readouterr().err
    with pytest.raises(ValueError, match="`metric` f1 is not among accuracy"):
        metric_of(config.replace(metric="f1"), task, [none])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_each_class_is_held_out_as_often_and_never_its_last_row(share):
    rows = {"rare1": 1, "rare2": 1, "few": 2, "some": 20, "many": 76}
    examples = classes([name for name, count in rows.items() for _ in range(count)])
    held = held_out(Classify, examples, round(100 * share))
    found = collections.Counter(examples[n].label for n in held)
    for name, count in rows.items():
        assert abs(found[name] - share * count) <= 2 and found[name] < count
    assert len(held) == min(round(100 * share), 100 - len(rows))
    assert held == held_out(Classify, examples, round(100 * share))
    assert len(held_out(Similarity, classes([1.0] * 9), 8)) == 8


def test_no_label_or_tag_is_lost():
    sets = [TaskExample((str(n),), ("a", "b", f"r{n // 2}")) for n in range(40)]
    held = held_out(Labels, sets, 20)
    assert len(held) == 20
    left = {label for n, e in enumerate(sets) if n not in held for label in e.label}
    assert left == {label for e in sets for label in e.label}
    tagged = [TaggedSentence(("x", "y"), ("O", f"B-{n}" if n % 2 else "O")) for n in range(20)]
    held = held_out(Tag, tagged, 9)
    assert len(held) == 9 and all(n % 2 == 0 for n in held)


def test_rows_that_are_the_only_ones_of_a_class_are_learnt():
    config = SETTINGS["classify"][0].make(
        model="m", output="o", train=[("a", "x"), ("b", "y"), ("c", "z")], held_out=0.3
    )
    with pytest.raises(ValueError, match="`held_out` 0.3: each of 3 examples is the only one"):
        read_parts(Classify, config)


def test_dev_examples_are_no_more_than_those_to_learn_from(capsys):
    rows = [(f"text {n}", "xy"[n % 2]) for n in range(30)]
    for given, count in (
        ({}, 30), ({"limit": 10}, 10), ({"limit": 40}, 30), ({"limit": 10, "dev_limit": 20}, 20),
        ({"dev_limit": 7}, 7),
    ):  # fmt: skip
        config = SETTINGS["classify"][0].make(model="m", output="o", train=rows, dev=rows, **given)
        _, dev, _ = read_parts(Classify, config)
        assert [e.segments[0] for e in dev] == [text for text, _ in rows[:count]]
        said = capsys.readouterr().err
        assert (f"first {count} of 30 examples (dev_limit" in said) == (count < 30)
