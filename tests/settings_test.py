"""Settings and the families that take them."""

import dataclasses
import itertools
import json
import pathlib
import typing

import numpy as np
import pytest

import tfnlp
from tfnlp.families import FAMILIES
from tfnlp.families.family import Planned
from tfnlp.settings import plan, tables
from tfnlp.settings.options import ELSEWHERE, Settings, is_required, names_of, subclasses
from tfnlp.settings.use import EmbedSettings


def test_tables_and_families_are_the_same():
    assert list(FAMILIES) == list(tables.FAMILIES)
    for name, family in FAMILIES.items():
        size = family.settings.__dataclass_fields__.get("size")
        assert name == family.name and list(family.sizes) == list(
            () if size is None else size.metadata["choices"]
        )
        assert (name in tables.EXAMPLES) == hasattr(family, "examples")
        planned = {size for of, size in plan.MODELS.values() if of == name}
        assert planned == set(family.plan_lengths if isinstance(family, Planned) else ())
    assert {family.prediction for family in FAMILIES.values()} < set(tables.PREDICTIONS)
    assert {family.evaluation for family in FAMILIES.values()} < set(tables.EVALUATIONS)


def test_names_that_people_know_lead_to_ours():
    kinds = [kind for kind, _ in (tables.FAMILIES | tables.TASKS).values()]
    kinds += [*tables.PREDICTIONS, *tables.EVALUATIONS, EmbedSettings]
    ours = set(itertools.chain(*map(names_of, kinds)))
    assert set(itertools.chain(*ELSEWHERE.values())) <= ours
    for name, family, wanted in (
        ("num_train_epochs", "bert", "epochs"),
        ("max_seq_length", "bert", "seq_length"),
        ("max_seq_length", "tag", "max_length"),
        ("lr", "tag", "learning_rate"),
        ("bach_size", "glove", "batch_size"),
    ):
        kind, _ = (tables.FAMILIES | tables.TASKS)[family]
        with pytest.raises(ValueError, match=f"no argument {name}; did you mean {wanted}"):
            kind.make(**{name: 1})


@pytest.mark.parametrize(
    "kind, kinds",
    [(kind, kinds) for kinds in (tables.EVALUATIONS, tables.PREDICTIONS) for kind in kinds],
    ids=lambda kind: getattr(kind, "__name__", ""),
)
def test_what_a_model_does_not_take_is_refused(kind, kinds):
    """Each setting of the others is, and the line says whose it is."""
    others = set(itertools.chain(*map(names_of, kinds))) - set(names_of(kind))
    required = {f.name: "x" for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING}
    for name in others:
        with pytest.raises(ValueError, match=f"`{name}` is for .*, not for {kind.of}"):
            kind.make(**required, **{name: 1})


def test_settings_are_shown_as_a_table():
    found = tfnlp.settings("bert")
    assert "batch_size" in found and found["batch_size"] in str(found)
    lines = str(found).splitlines()
    assert len(lines) == len(found) and {line.index(found[line.split()[0]]) for line in lines} == {
        max(map(len, found)) + 2
    }
    assert found._repr_html_().count("<tr>") == len(found)


def test_numbers_of_numpy_are_those_of_python():
    """A run's `config.json` keeps them; rows stay what they are."""
    rows = np.array([["good", "yes"]])
    given = dict(
        epochs=np.float32(0.5), batch_size=np.int64(8), seeds=np.arange(2), restart=np.bool_(True),
        metric=np.str_("f1"), lora_matrices=[np.str_("query")],
    )  # fmt: skip
    kind, _ = tables.TASKS["classify"]
    made = kind.make(model="m", train=rows, output="o", **given)
    wanted = dict(
        epochs=0.5, batch_size=8, seeds=[0, 1], restart=True, metric="f1", lora_matrices=["query"]
    )
    found = {name: getattr(made, name) for name in given}
    assert json.dumps(found) == json.dumps(wanted) and type(found["metric"]) is str
    assert made.train is rows
    with pytest.raises(ValueError, match="`batch_size` 8.5 must be a whole number"):
        kind.make(model="m", train=rows, output="o", batch_size=np.float64(8.5))


@pytest.mark.parametrize("kind", subclasses(Settings), ids=lambda kind: kind.__name__)
def test_paths_are_strings_that_are_not_empty(kind):
    """A run's `config.json` keeps some; a string in place of a file of rows may be a text.

    An empty `output` would be the current folder.
    """
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    required = {f.name: "x" for f in fields if is_required(f)}
    for field in fields:
        what, path = field.metadata["metavar"], pathlib.Path("folder")
        if what not in ("DIR", "FILE", "PNG"):
            continue
        with pytest.raises(ValueError, match=f"`{field.name}` is empty; give a path"):
            kind.make(**{**required, field.name: ""})
        try:
            found = getattr(kind.make(**{**required, field.name: path}), field.name)
        except ValueError as error:  # with other settings alone
            assert f"`{field.name}` PosixPath" not in str(error)
        else:
            rows = what == "FILE" and hints[field.name] is typing.Any
            assert found == (path if rows else "folder")
