"""Which family a folder or file belongs to, and the pretrained model in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tfnlp.families.checked import check_size, count_weights, section, stated
from tfnlp.families.family import Family
from tfnlp.families.published import opened
from tfnlp.families.sentence_runs import is_sentence_run, restored
from tfnlp.families.several_runs import best_run
from tfnlp.published import is_published

if TYPE_CHECKING:
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.formats import Place


def load_pretrained(
    path: Any, family: Family | None = None, dtype: str | None = None
) -> Pretrained:
    """Return the pretrained model of a run, a checkpoint, exported modules or a vector file.

    Args:
        path: A folder or file; the name of a published model; or a `Pretrained`, which is returned.
        family: The only family that will do; None: any.
        dtype: A Keras dtype policy; None: the global one.
    """
    from tfnlp.checkpoints.pretrained import Pretrained

    if isinstance(path, Pretrained):
        _check_family(path.path or "the model", path.family, family)
        return path
    path = os.fspath(path)
    if is_published(path):
        with opened(path) as place:
            loaded = load_pretrained(place.folder, family, dtype)
        loaded.path, loaded.revision = path, place.revision
        return loaded
    loaded = read_model(path, dtype, modules=False)
    _check_family(path, loaded.family, family)
    return loaded


def read_model(path: str, dtype: str | None = None, modules: bool = True) -> Any:
    """Return the `Pretrained` at a path on this machine, with `modules` also a `Module`."""
    from tfnlp.formats import recognised, unknown
    from tfnlp.training.run import is_run

    best = best_run(path)
    if is_run(best):
        loaded = _of_run(best, dtype)
    else:
        if not modules:
            _check_whole(path)
        place = place_of(path)
        found = recognised(place)
        if found is None:
            raise unknown(place)
        if not modules and not found.pretrained:
            raise ValueError(
                f"{path} is a SavedModel that can't be trained on: load it with `tfnlp.load` to "
                "call it"
            )
        loaded = found.read(place, dtype)
    loaded.path = loaded.folder = path
    return loaded


def _check_whole(path: str) -> None:
    """Refuse one of the modules of a pair."""
    from tfnlp.hub import saved_kind

    whole = os.path.dirname(os.path.abspath(path))
    if os.path.isfile(os.path.join(path, "saved_model.pb")) and saved_kind(whole) is not None:
        raise ValueError(f"{path} is one of the modules in {whole}: give that folder")


def place_of(path: str) -> Place:
    """Return the place of a path on this machine, which is no run."""
    from tfnlp.families import FAMILIES
    from tfnlp.formats import Place
    from tfnlp.training.run import read_config

    if os.path.isdir(os.path.join(path, "checkpoints")):
        read_config(path)  # raises: it is a run, but not one whose configuration can be read
    return Place.at(path, FAMILIES, opened)


def run_family(path: str, run: dict[str, Any]) -> Family:
    """Return the family of a pretraining run."""
    from tfnlp.families import FAMILIES

    name = stated(path, run, "model", (*FAMILIES, "task"))
    if name not in FAMILIES:
        raise ValueError(
            f"{path} is fine-tuned already; give the pretrained model that it was made from"
        )
    return FAMILIES[name]


def check_arguments(path: str, run: dict[str, Any], family: Family, where: str = "") -> int:
    """Check the sections of a run's config that become arguments; return the number of weights."""
    from tfnlp import models

    sections = {
        name: section(path, run, where + name, getattr(models, function), left_out)
        for name, (function, left_out) in family.sections.items()
        if not where or name == "arguments"
    }

    def build(**arguments: Any) -> Any:
        if where:
            return family.encoder_function()(**arguments)
        encoder, pretrainer = family.build(arguments, sections.get("heads", {}), None)
        return encoder if pretrainer is None else pretrainer

    return count_weights(path, build, sections["arguments"])


def _of_run(path: str, dtype: str | None) -> Pretrained:
    from tfnlp.training.run import check_run, read_config, restore_weights

    run = read_config(path)
    check_run(path)
    family = run_family(path, run)
    if is_sentence_run(run):
        loaded = restored(path, run, family, dtype)
        loaded.run, loaded.family = run, family
        return loaded
    check_size(path, check_arguments(path, run, family))
    loaded = family.restore(path, run, dtype)
    loaded.family = family
    trained = loaded.pretrainer if loaded.pretrainer is not None else loaded.encoder
    names = os.listdir(os.path.join(path, "checkpoints"))
    averaged = any(name.startswith("average-") for name in names)
    _, loaded.history = restore_weights(path, trained, average=averaged)
    loaded.run = run
    if family.finish is not None:
        family.finish(loaded, path)
    return loaded


def _check_family(path: str, found: Family, wanted: Family | None) -> None:
    if wanted is not None and found is not wanted:
        raise ValueError(f"{path} is {found.title}, expected {wanted.title}")
