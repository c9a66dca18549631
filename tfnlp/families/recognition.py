"""Which family a folder or file belongs to, and the pretrained model in it."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, Any

from tfnlp.families.adapters import merged_checkpoint
from tfnlp.families.checked import check_size, count_weights, section, stated
from tfnlp.families.family import Family
from tfnlp.families.published import opened
from tfnlp.families.sentence_runs import is_sentence_run, restored
from tfnlp.families.several_runs import best_run
from tfnlp.published import is_published

if TYPE_CHECKING:
    from tfnlp.checkpoints.pretrained import Pretrained


def load_pretrained(
    path: Any, family: Family | None = None, dtype: str | None = None
) -> Pretrained:
    """Return the pretrained model of a run, a checkpoint, exported modules or a vector file.

    Args:
        path: A folder or file; the name of a published model; or a `Pretrained`, which is returned.
        family: The only family that will do; None: any.
        dtype: A Keras dtype policy; None: the global one.
    """
    from tfnlp.checkpoints.keras_hub import is_preset, read_preset
    from tfnlp.checkpoints.peft import is_adapter
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.checkpoints.sentence_transformers import read_sentence_settings, transformer_folder
    from tfnlp.families import FAMILIES
    from tfnlp.training.run import is_run

    if isinstance(path, Pretrained):
        _check_family(path.path or "the model", path.family, family)
        return path
    path = os.fspath(path)
    if is_published(path):
        with opened(path) as place:
            loaded = load_pretrained(place.folder, family, dtype)
        loaded.path, loaded.revision = path, place.revision
        return loaded
    if is_adapter(path):
        with merged_checkpoint(path) as place:
            loaded = load_pretrained(place, family, dtype)
            loaded.tokenizer  # noqa: B018  # its files are deleted with the folder
        loaded.path = path
        return loaded
    best = best_run(path)
    if is_run(best):
        found, loaded = _of_run(best, family, dtype)
    elif is_preset(path):
        name, loaded = read_preset(path, dtype)
        found = FAMILIES[name]
        _check_family(path, found, family)
    else:
        inner = transformer_folder(path)
        found, read = _recognised(inner, FAMILIES)
        _check_family(path, found, family)
        loaded = read(inner) if read is found.saved else read(inner, dtype)
        loaded.saved = read is found.saved
        loaded.sentences = read_sentence_settings(path, loaded.lowercase)
    loaded.family, loaded.path, loaded.folder = found, path, path
    return loaded


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


def _of_run(path: str, family: Family | None, dtype: str | None) -> tuple[Family, Pretrained]:
    from tfnlp.training.run import check_run, read_config, restore_weights

    run = read_config(path)
    check_run(path)
    found = run_family(path, run)
    _check_family(path, found, family)
    if is_sentence_run(run):
        loaded = restored(path, run, found, dtype)
        loaded.run = run
        return found, loaded
    check_size(path, check_arguments(path, run, found))
    loaded = found.restore(path, run, dtype)
    trained = loaded.pretrainer if loaded.pretrainer is not None else loaded.encoder
    names = os.listdir(os.path.join(path, "checkpoints"))
    averaged = any(name.startswith("average-") for name in names)
    _, loaded.history = restore_weights(path, trained, average=averaged)
    loaded.run = run
    if found.finish is not None:
        found.finish(loaded, path)
    return found, loaded


def _recognised(path: str, families: dict[str, Family]) -> tuple[Family, Any]:
    """Return the family of files that are not a run, and its function that reads them."""
    from tfnlp.hub import saved_family, saved_kind
    from tfnlp.training.run import read_config

    if os.path.isdir(os.path.join(path, "checkpoints")):
        read_config(path)  # raises: it is a run, but not one whose configuration can be read
    whole = os.path.dirname(os.path.abspath(path))
    if os.path.isfile(os.path.join(path, "saved_model.pb")) and saved_kind(whole) is not None:
        raise ValueError(f"{path} is one of the modules in {whole}: give that folder")
    layout = saved_kind(path) if os.path.isdir(path) else None
    if layout is not None:
        alike = {f.name: f for f in families.values() if f.saved_layout == layout}
        # Modules of other libraries do not say whose they are.
        family = alike.get(saved_family(path)) or next(iter(alike.values()))
        return family, family.saved
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for family in families.values():
        if family.recognise_file is not None and family.recognise_file(path):
            return family, family.read
    model_type = _model_type(os.path.join(folder, "config.json"))
    family = family_of_files(folder, names, model_type, families)
    if family is not None:
        return family, family.read
    expected = f"expected {expected_models(families)}"
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; {expected}")
    raise ValueError(f"{path} {described(path, names, model_type)}; {expected}")


def family_of_files(
    folder: str, names: list[str], model_type: str | None, families: dict[str, Family]
) -> Family | None:
    """Return the family whose checkpoint a folder with files of these names holds, or None."""
    for family in families.values():
        if family.recognise is not None and family.recognise(folder, names, model_type):
            return family
    return None


def _model_type(path: str) -> str | None:
    """Return what Hugging Face's configuration says of the kind of model."""
    from tfnlp.checkpoints.formats.json_files import read_json

    found = read_json(pathlib.Path(path)).get("model_type") if os.path.isfile(path) else None
    return found if isinstance(found, str) else None


def described(path: str, names: list[str], model_type: str | None) -> str:
    """Return what is at a path that no family recognises."""
    if os.path.isfile(path):
        return "is a file of an unknown format"
    if not names:
        return "is an empty folder"
    if "saved_model.pb" in names:
        return "is a SavedModel that can't be trained on: load it with `tfnlp.load` to call it"
    if model_type is not None:
        return f"is a Hugging Face model of the type {model_type!r}, which tfnlp does not read"
    return f"is a folder of {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"


def expected_models(families: dict[str, Family]) -> str:
    """Return what `load_pretrained` takes, in words."""
    kinds = [f"{f.title} ({f.checkpoints})" for f in families.values() if f.checkpoints]
    return f"the folder of a run, exported modules, or {', '.join(kinds)}"


def _check_family(path: str, found: Family, wanted: Family | None) -> None:
    if wanted is not None and found is not wanted:
        raise ValueError(f"{path} is {found.title}, expected {wanted.title}")
