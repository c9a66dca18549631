"""Conversion of ELMo's `options.json` (bilm-tf, AllenNLP) to the arguments of `elmo`, and back."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import keras

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.text.lines import shown

CHARACTERS = 262  # at inference; 261 in training, which counts no padding: the same table
MAX_CHARACTERS = 50
ACTIVATIONS = ("relu", "tanh")
_ABSENT = object()
_LARGEST = 2**31 - 1


def _whole(low: int, high: int) -> tuple[Callable[[Any], bool], str]:
    def valid(value: Any) -> bool:
        return type(value) is int and low <= value <= high

    return valid, f"a whole number from {low} to {high}"


def _are_filters(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(map(_is_filter, value))


def _is_filter(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2 or not all(type(n) is int for n in pair):
        return False
    return 1 <= pair[0] <= MAX_CHARACTERS and 1 <= pair[1] <= _LARGEST


_CLIP = (
    lambda value: type(value) in (int, float) and 0 <= value <= 1e6,
    "a number from 0 to 1e6, or null",
    None,
)
# key: argument, test of its value, what is expected, and bilm-tf's default if it may be absent
_OPTIONS = {
    "lstm.dim": ("units", *_whole(1, _LARGEST)),
    "lstm.projection_dim": ("projection_size", *_whole(1, _LARGEST)),
    # Not more layers than can be compared with the file.
    "lstm.n_layers": ("num_layers", *_whole(1, 1000), 1),
    "lstm.cell_clip": ("cell_clip", *_CLIP),
    "lstm.proj_clip": ("projection_clip", *_CLIP),
    "lstm.use_skip_connections": (
        "residual", lambda value: type(value) is bool, "true or false",
    ),
    "char_cnn.activation": (
        "activation", lambda value: value in ACTIVATIONS, f"one of {list(ACTIVATIONS)}",
    ),
    "char_cnn.embedding.dim": ("embedding_size", *_whole(1, _LARGEST)),
    "char_cnn.filters": (
        "filters", _are_filters,
        f"pairs [width, number], of widths from 1 to {MAX_CHARACTERS} and numbers from 1",
    ),
    "char_cnn.n_highway": ("num_highway", *_whole(0, 1000), 0),
    "char_cnn.n_characters": (
        "num_characters", _whole(CHARACTERS - 1, CHARACTERS)[0],
        f"{CHARACTERS} (or {CHARACTERS - 1}, of a training run)",
    ),
    "char_cnn.max_characters_per_token": (
        "max_characters", _whole(MAX_CHARACTERS, MAX_CHARACTERS)[0],
        f"{MAX_CHARACTERS}, the length of words in tfnlp",
    ),
}  # fmt: skip


def read_options(path: pathlib.Path) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.elmo` that an options file states.

    Clips of null or 0 mean none. Keys that do not describe the model, such as those of the training
    run, are ignored. All faults of the file are listed in one line.
    """
    options = read_json(path)
    found: dict[str, Any] = {}
    faults: list[str] = []
    for key, (argument, valid, expected, *default) in _OPTIONS.items():
        value = options
        for part in key.split("."):
            value = value.get(part, _ABSENT) if isinstance(value, dict) else _ABSENT
        if default and value in (None, _ABSENT):
            (value,) = default
        elif value is _ABSENT:
            faults.append(f"missing {key}, expected {expected}")
        elif not valid(value):
            faults.append(f"{key}={shown(value)}, expected {expected}")
        found[argument] = value
    if not faults and found["units"] <= found["projection_size"]:
        faults.append(
            f"lstm.dim={found['units']} is not above "
            f"lstm.projection_dim={found['projection_size']}, and bilm-tf then has no projection "
            "in its LSTMs, which tfnlp's always have"
        )
    if faults:
        raise ValueError(f"{path} does not fit ELMo in {len(faults)} places: {'; '.join(faults)}")
    del found["max_characters"]
    return {
        **found,
        "num_characters": CHARACTERS,
        "filters": tuple(map(tuple, found["filters"])),
        "cell_clip": found["cell_clip"] or None,
        "projection_clip": found["projection_clip"] or None,
    }


def config_of(encoder: keras.Model) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.elmo` that determine the weights of `encoder`."""
    layers = {layer.name: layer for layer in encoder.layers}
    if not {"char_cnn", "bilm", "scalar_mix"} <= set(layers):
        raise ValueError(f"encoder {encoder.name!r} is not an ELMo; give a model made by `elmo`")
    cnn, bilm = layers["char_cnn"], layers["bilm"]
    return {
        "num_layers": bilm.num_layers,
        "units": bilm.units,
        "projection_size": bilm.projection_size,
        "num_characters": cnn.num_characters,
        "embedding_size": cnn.embedding_size,
        "filters": cnn.filters,
        "activation": cnn.activation,
        "num_highway": cnn.num_highway,
        "cell_clip": bilm.cell_clip,
        "projection_clip": bilm.projection_clip,
        "residual": bilm.residual,
    }


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that `read_options` converts to `config`."""
    faults = []
    if config["num_characters"] != CHARACTERS:
        faults.append(f"num_characters={config['num_characters']}, expected {CHARACTERS}")
    if config["activation"] not in ACTIVATIONS:
        faults.append(f"activation={config['activation']!r}, expected one of {list(ACTIVATIONS)}")
    if config["units"] <= config["projection_size"]:
        faults.append(
            f"units={config['units']}, expected more than projection_size="
            f"{config['projection_size']}"
        )
    if faults:
        raise ValueError(f"bilm-tf has no such model as encoder: {'; '.join(faults)}")
    return {
        "lstm": {
            "cell_clip": config["cell_clip"],
            "dim": config["units"],
            "n_layers": config["num_layers"],
            "proj_clip": config["projection_clip"],
            "projection_dim": config["projection_size"],
            "use_skip_connections": config["residual"],
        },
        "char_cnn": {
            "activation": config["activation"],
            "embedding": {"dim": config["embedding_size"]},
            "filters": [list(pair) for pair in config["filters"]],
            "max_characters_per_token": MAX_CHARACTERS,
            "n_characters": CHARACTERS,
            "n_highway": config["num_highway"],
        },
    }
