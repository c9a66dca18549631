"""Models by path or published name: which files are needed, and the model in them."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from tfnlp.checkpoints.folders import weight_names
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.weight_files import shard_names
from tfnlp.checkpoints.keras_hub import PREFIX, preset_class
from tfnlp.checkpoints.keras_hub_families import counterpart
from tfnlp.checkpoints.peft import CONFIG as ADAPTER
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.families import FAMILIES
from tfnlp.families.checked import check_size, count_weights, section, stated
from tfnlp.families.family import Family
from tfnlp.families.sentence_runs import SECTION, restored
from tfnlp.files import given_path, local_copy
from tfnlp.formats import Place, recognised, unknown
from tfnlp.formats.table import EXPECTED, described
from tfnlp.hub import saved_kind
from tfnlp.hub.loading.saved_model import saved_models
from tfnlp.published import Fetched, fetch, is_published
from tfnlp.settings.options import model_place
from tfnlp.text.lines import shown
from tfnlp.training.run import check_run, is_run, read_config, restore_weights

RUNS = "runs.json"  # of a folder of several runs of fine-tuning: says the best
# Beside the weights: what states the sizes, and vocabularies.
_SMALL = (
    "README.md", "config.json", "bert_config.json", "hparams.json", "*options*.json", "checkpoint",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab*.txt", "vocab.json", "merges.txt", "spiece.model", "encoder.json", "vocab.bpe",
    "modules.json", "sentence_*_config.json", "config_sentence_transformers.json",
)  # fmt: skip
_MODULES = "[0-9]_*/config.json"  # of sentence-transformers
_DENSE = ("[0-9]_Dense/model.safetensors", "[0-9]_Dense/pytorch_model.bin")
_MODULE = "saved_model.pb"


@contextlib.contextmanager
def opened(path: Any, choose: Callable[..., list[str]] | None = None) -> Iterator[Fetched]:
    """Yield where a model is on this machine: downloaded if it has a published name.

    What is at a remote path is copied, and deleted at the end. `choose` is a function such as
    `model_files`, the default, to the files that are needed of a repository.
    """
    if is_published(path):
        found = fetch(path, functools.partial(choose or model_files, path))
        with _named(found.folder, path):
            yield found
    elif isinstance(path, str) and path.startswith(PREFIX):
        yield Fetched(path)  # keras-hub downloads it
    else:
        with local_copy(path) as folder:
            yield Fetched(folder, is_temporary=folder != path)


def model_files(name: str, files: list[str], path_of: Callable[[str], str]) -> list[str]:
    """Return the files of a repository that hold a model that tfnlp reads.

    `path_of` downloads a small file of them and returns its path.
    """
    top = sorted(file for file in files if "/" not in file)
    if ADAPTER in top and "config.json" not in top:
        return [file for file in top if fnmatch.fnmatch(file, "*adapter_*") or _is_small(file)]
    config_path = path_of("config.json") if "config.json" in top else ""
    config = read_json(pathlib.Path(config_path)) if config_path else {}
    if "runs.json" in top or "tfnlp" in config:
        return files  # runs of tfnlp
    weights = weight_names(top) or [file for file in top if file.endswith(".hdf5")]
    if not weights and any(os.path.basename(file) == _MODULE for file in files):
        return files
    if config_path and (preset := preset_class(os.path.dirname(config_path))) is not None:
        counterpart(preset, name)  # raises an error for a model that tfnlp does not have
        return files
    place = Place("", os.path.dirname(config_path), tuple(top), FAMILIES)
    found = recognised(place)
    if weights and found is not None:
        small = [file for file in top if _is_small(file)]
        small += fnmatch.filter(files, _MODULES)
        small += next(filter(None, (fnmatch.filter(files, kind) for kind in _DENSE)), [])
        return [*small, *_parts(name, weights, top, path_of)]
    what = f"holds no weights that tfnlp reads, but {_listed(top)}"
    if found is None and place.model_type is not None:
        what = described(place)
    raise ValueError(f"{name} {what}; expected {EXPECTED}")


def _is_small(file: str) -> bool:
    return any(fnmatch.fnmatch(file, pattern) for pattern in _SMALL)


def _listed(files: list[str]) -> str:
    return f"{', '.join(sorted(files)[:5])}{', ...' if len(files) > 5 else ''}"


@contextlib.contextmanager
def opened_modules(path: str) -> Iterator[list[str]]:
    """Yield the folders of the SavedModels at a path or an address, or with a published name."""
    if is_published(path):
        with opened(path, module_files) as place:
            yield saved_models(place.folder)
    else:
        yield saved_models(path)


def module_files(name: str, files: list[str], path_of: Callable[[str], str]) -> list[str]:
    """Return the files of a repository of SavedModels; arguments are those of `model_files`."""
    if any(os.path.basename(file) == _MODULE for file in files):
        return files
    raise ValueError(
        f"{name} holds no SavedModel, but {_listed(files)}; `tfnlp export` writes one of it"
    )


def _parts(
    name: str, weights: list[str], top: list[str], path_of: Callable[[str], str]
) -> list[str]:
    """Return the files of weights: the shards that an index names, or what belongs to a prefix."""
    parts = []
    for file in weights:
        parts.append(file)
        if file.endswith(".index.json"):
            shards = sorted(set(shard_names(path_of(file)).values()))
            lost = [shard for shard in shards if shard not in top]
            if lost:
                raise FileNotFoundError(
                    f"{name} is not complete: {file} names the shard {lost[0]}, which the "
                    "repository does not have; give another revision"
                )
            parts += shards
        elif file.endswith(".index"):
            parts += fnmatch.filter(top, f"{file.removesuffix('.index')}.data-*")
    return parts


@contextlib.contextmanager
def _named(folder: str, name: str) -> Iterator[None]:
    """Say `name` in errors about the whole folder; those about a file in it keep its path."""
    try:
        yield
    except (ValueError, OSError) as error:
        whole = re.compile(re.escape(folder) + r"(?![/\w])")
        error.args = tuple(
            whole.sub(lambda _: name, part) if isinstance(part, str) else part
            for part in error.args
        )
        raise


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
    runs = read_ending(path)
    if runs is None:
        return folder
    name = runs.get("best") if isinstance(runs, dict) else None
    parts = name.split("/") if isinstance(name, str) else [""]
    if not all(parts) or {".", ".."} & set(parts) or "\\" in name or "\0" in name:
        raise ValueError(f"{path} has best={shown(name)}; expected the path of a folder beside it")
    return os.path.join(folder, name)


def read_ending(path: str) -> Any:
    """Return what a file that a run ends with says; None if there is no such file."""
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        again = "delete it and run the same `tfnlp finetune` again"
        raise ValueError(f"{path} is not a JSON file ({error}); {again}") from error
