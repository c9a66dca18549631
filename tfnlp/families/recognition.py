"""Which family a folder or file belongs to, and the pretrained model in it."""

from __future__ import annotations

import json
import os
from typing import Any

from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.families import FAMILIES
from tfnlp.families.checked import check_size, count_weights, section, stated
from tfnlp.families.family import Family
from tfnlp.families.published import opened
from tfnlp.families.sentence_runs import SECTION, restored
from tfnlp.files import given_path
from tfnlp.formats import Place, recognised, unknown
from tfnlp.hub import saved_kind
from tfnlp.published import is_published
from tfnlp.settings.options import model_place
from tfnlp.text.lines import shown
from tfnlp.training.run import check_run, is_run, read_config, restore_weights

RUNS = "runs.json"  # of a folder of several runs of fine-tuning: says the best


def load_pretrained(
    path: Any, family: Family | None = None, dtype: str | None = None
) -> Pretrained:
    """Return the pretrained model of a run, a checkpoint, exported modules or a vector file.

    Args:
        path: A folder or file; the name of a published model; or a `Pretrained`, which is returned.
        family: The only family that will do; None: any.
        dtype: A Keras dtype policy; None: the global one.
    """
    if isinstance(path, Pretrained):
        _check_family(path.path or "the model", path.family, family)
        return path
    path = model_place(given_path(path, "model"))
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
    whole = os.path.dirname(os.path.abspath(path))
    if os.path.isfile(os.path.join(path, "saved_model.pb")) and saved_kind(whole) is not None:
        raise ValueError(f"{path} is one of the modules in {whole}: give that folder")


def place_of(path: str) -> Place:
    """Return the place of a path on this machine, which is no run."""
    if os.path.isdir(os.path.join(path, "checkpoints")):
        read_config(path)  # raises: it is a run, but not one whose configuration can be read
    return Place.at(path, FAMILIES, opened)


def check_precision(loaded: Pretrained, dtype: str | None) -> None:
    """Refuse a dtype policy of exported modules, which keep their own."""
    if dtype is not None and loaded.saved:
        raise ValueError(
            f"{loaded.path} was exported and keeps its numbers; give the run or checkpoint that it "
            "was made from, or leave out --bf16"
        )


def run_family(path: str, run: dict[str, Any]) -> Family:
    """Return the family of a pretraining run."""
    name = stated(path, run, "model", (*FAMILIES, "task"))
    if name not in FAMILIES:
        raise ValueError(
            f"{path} is fine-tuned already; give the pretrained model that it was made from"
        )
    return FAMILIES[name]


def check_arguments(path: str, run: dict[str, Any], family: Family, where: str = "") -> int:
    """Check the sections of a run's config that become arguments; return the number of weights."""
    sections = {
        name: section(path, run, where + name, function, left_out)
        for name, (function, left_out) in family.sections().items()
        if not where or name == "arguments"
    }

    def build(**arguments: Any) -> Any:
        if where:
            return family.encoder(**arguments)
        encoder, pretrainer = family.build(arguments, sections.get("heads", {}), None)
        return encoder if pretrainer is None else pretrainer

    return count_weights(path, build, sections["arguments"])


def _of_run(path: str, dtype: str | None) -> Pretrained:
    run = read_config(path)
    check_run(path)
    family = run_family(path, run)
    if SECTION in run:
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
    family.finish(loaded, path)
    return loaded


def _check_family(path: str, found: Family, wanted: Family | None) -> None:
    if wanted is not None and found is not wanted:
        raise ValueError(f"{path} is {found.title}, expected {wanted.title}")


def best_run(folder: str) -> str:
    """Return the folder of the best of several runs under `folder`, or `folder` itself."""
    path = os.path.join(folder, RUNS)
    runs = read_json(path)
    if runs is None:
        return folder
    name = runs.get("best") if isinstance(runs, dict) else None
    parts = name.split("/") if isinstance(name, str) else [""]
    if not all(parts) or {".", ".."} & set(parts) or "\\" in name or "\0" in name:
        raise ValueError(f"{path} has best={shown(name)}; expected the path of a folder beside it")
    return os.path.join(folder, name)


def read_json(path: str) -> Any:
    """Return what a file that a run ends with says; None if there is no such file."""
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not valid JSON ({error}); delete it and run the same `tfnlp finetune` again"
        ) from error
