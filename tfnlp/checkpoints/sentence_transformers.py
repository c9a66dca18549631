"""Folders of the library sentence-transformers: an encoder, and how its tokens become a vector.

    modules.json                  the modules, in their order
    sentence_bert_config.json     the longest text, or tokenizer_config.json, since version 6
    1_Pooling/config.json         the pooling

Other modules than a Transformer, a pooling and a normalization are not read.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

from tfnlp.checkpoints.formats.json_files import read_json, write_json

MODULES = "modules.json"
_LENGTH, _LIBRARY = "sentence_bert_config.json", "config_sentence_transformers.json"
_TOKENIZER = "tokenizer_config.json"
_POOLING, _NORMALIZE = "1_Pooling", "2_Normalize"
SENTENCE_FILES = (MODULES, _LENGTH, _POOLING, _NORMALIZE)
_TYPES = "sentence_transformers.models."
_POOLINGS = {"mean": "mean", "cls": "cls", "max": "max", "lasttoken": "last"}
_FLAGS = {  # of files that were written before `pooling_mode` was
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclasses.dataclass(frozen=True)
class SentenceSettings:
    """How a model makes a vector of a sentence.

    Attributes:
        pooling, normalize: see `tfnlp.layers.SentencePooling`.
        max_length: longest text in tokens, special ones included; None: not stated.
        refused: why tfnlp can't make the vectors that the folder states; "": it can.
    """

    pooling: str = "mean"
    normalize: bool = True
    max_length: int | None = None
    refused: str = ""


def transformer_folder(path: str) -> str:
    """Return the folder in which the encoder's files are: `path` itself, or one in it."""
    for module in _modules(path):
        if module["type"].endswith(".Transformer"):
            return os.path.join(path, module["path"]) if module["path"] else path
    return path


def read_sentence_settings(
    path: str, lowercase: bool | None, positions: int
) -> SentenceSettings | None:
    """Return what the files of sentence-transformers in a folder say; None if there are none.

    `lowercase` says whether the encoder's tokenizer lower-cases texts, `positions` how many tokens
    the encoder reads. Since version 6 the longest text stands in the tokenizer's file alone.
    """
    modules = _modules(path)
    if not modules:
        return None
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    folder = pathlib.Path(path)
    encoder = pathlib.Path(transformer_folder(path))
    lengths, name, key = _read(encoder / _LENGTH), _LENGTH, "max_seq_length"
    length = lengths.get(key)
    if length is None:
        name, key = _TOKENIZER, "model_max_length"
        length = _read(encoder / name).get(key)
        limited = type(length) in (int, float) and length > positions  # 1e30: there is no limit
        length = positions if length is None or limited else length
    if type(length) is not int or length < 3:
        raise ValueError(f"{path}: {name} has {key}={length!r}, expected 3 or more tokens")
    refused = ""
    others = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if others or kinds[:2] != ["Transformer", "Pooling"]:
        refused = f"the modules {', '.join(kinds)}; only Transformer, Pooling, Normalize are known"
    elif lengths.get("do_lower_case") and not lowercase:
        refused = "do_lower_case beside a tokenizer that keeps case"
    elif name := _read(folder / _LIBRARY).get("default_prompt_name"):
        refused = f"the prompt {name!r} before each text"
    pooling = "mean"
    if not refused:
        modes = _modes(_read(folder / modules[1]["path"] / "config.json"))
        if len(modes) != 1 or modes[0] not in _POOLINGS:
            refused = f"the pooling {' and '.join(modes)}; known are {', '.join(_POOLINGS)}"
        else:
            pooling = _POOLINGS[modes[0]]
    return SentenceSettings(pooling, "Normalize" in kinds, length, refused)


def write_sentence_settings(folder: str, settings: SentenceSettings, size: int) -> None:
    """Write the files of sentence-transformers beside those of an encoder.

    `size` is D of its outputs `[B, T, D]`.
    """
    modules = [("", "Transformer"), (_POOLING, "Pooling")]
    if settings.normalize:
        modules.append((_NORMALIZE, "Normalize"))
    for path, _ in modules[1:]:
        os.makedirs(os.path.join(folder, path), exist_ok=True)
    write_json(
        os.path.join(folder, MODULES),
        [
            {"idx": i, "name": str(i), "path": path, "type": _TYPES + kind}
            for i, (path, kind) in enumerate(modules)
        ],
    )
    mode = {ours: theirs for theirs, ours in _POOLINGS.items()}[settings.pooling]
    flags = {flag: name == mode for flag, name in _FLAGS.items()}
    write_json(
        os.path.join(folder, _POOLING, "config.json"), {"word_embedding_dimension": size, **flags}
    )
    write_json(
        os.path.join(folder, _LENGTH),
        {"max_seq_length": settings.max_length, "do_lower_case": False},
    )


def _modules(path: str) -> list[dict[str, Any]]:
    """Return the modules of a folder in their order; none if it has no `modules.json`."""
    file = pathlib.Path(path) / MODULES
    if not file.is_file():
        return []
    modules = read_json(file, list)
    for module in modules:
        stated = module if isinstance(module, dict) else {}
        place = stated.get("path")
        inside = isinstance(place, str) and not os.path.isabs(place) and ".." not in place
        if not inside or not isinstance(stated.get("type"), str):
            raise ValueError(f"{file} must list modules with `path`, in the folder, and `type`")
    return modules


def _modes(config: dict[str, Any]) -> list[str]:
    """Return the names of the poolings that a configuration states."""
    stated = config.get("pooling_mode")
    if stated is not None:
        return [stated] if isinstance(stated, str) else [str(mode) for mode in stated]
    if not any(flag in config for flag in _FLAGS):
        return ["mean"]
    return [name for flag, name in _FLAGS.items() if config.get(flag)] or ["mean"]


def _read(path: pathlib.Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}
