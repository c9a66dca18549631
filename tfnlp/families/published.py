"""Published models by name: which files of a repository are needed, and where they are."""

import contextlib
import fnmatch
import functools
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
from tfnlp.families import FAMILIES
from tfnlp.files import local_copy
from tfnlp.formats import Place, recognised
from tfnlp.formats.table import EXPECTED, described
from tfnlp.hub.loading.saved_model import saved_models
from tfnlp.published import Fetched, fetch, is_published

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
