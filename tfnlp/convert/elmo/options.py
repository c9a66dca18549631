"""Conversion of ELMo's `options.json` (bilm-tf, AllenNLP) to the arguments of `elmo`, and back."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import keras

from tfnlp.convert.formats.json_files import read_json
from tfnlp.text.lines import shown

CHARACTERS = 262  # at inference; 261 in training, which counts no padding: the same table
MAX_CHARACTERS = 50
ACTIVATIONS = ("relu", "tanh")
_NONE = object()  # the key may not be absent

# key: argument, lowest, highest, default (that of bilm-tf)
_WHOLE = {
    "lstm.dim": ("units", 1, 2**31 - 1, _NONE),
    "lstm.projection_dim": ("projection_size", 1, 2**31 - 1, _NONE),
    # Not more layers than can be compared with the file.
    "lstm.n_layers": ("num_layers", 1, 1000, 1),
    "char_cnn.n_highway": ("num_highway", 0, 1000, 0),
    "char_cnn.embedding.dim": ("embedding_size", 1, 2**31 - 1, _NONE),
}
_CLIPS = {"lstm.cell_clip": "cell_clip", "lstm.proj_clip": "projection_clip"}


def read_options(path: pathlib.Path) -> dict[str, Any]:
    """Return the arguments of `tfnlp.models.elmo` that an options file states.

    Clips of null or 0 mean none. Keys that do not describe the model, such as those of the training
    run, are ignored.
    """
    options = read_json(path)
    found: dict[str, Any] = {}
    faults: list[str] = []

    def take(key: str, valid: Callable[[Any], bool], expected: str, default: Any = _NONE) -> Any:
        value = options
        for part in key.split("."):
            value = value.get(part, _NONE) if isinstance(value, dict) else _NONE
        if value is _NONE or (value is None and default is not _NONE):
            if default is _NONE:
                faults.append(f"missing {key}, expected {expected}")
            return default
        if not valid(value):
            faults.append(f"{key}={shown(value)}, expected {expected}")
            return _NONE
        return value

    for key, (argument, low, high, default) in _WHOLE.items():
        found[argument] = take(
            key,
            lambda value, low=low, high=high: _whole(value) and low <= value <= high,
            f"a whole number from {low} to {high}",
            default,
        )
    for key, argument in _CLIPS.items():
        found[argument] = take(key, _clip, "a number from 0 to 1e6, or null", None) or None
    found["residual"] = take(
        "lstm.use_skip_connections", lambda value: type(value) is bool, "true or false"
    )
    found["activation"] = take(
        "char_cnn.activation", lambda value: value in ACTIVATIONS, f"one of {list(ACTIVATIONS)}"
    )
    take(
        "char_cnn.n_characters",
        lambda value: _whole(value) and value in (CHARACTERS - 1, CHARACTERS),
        f"{CHARACTERS} (or {CHARACTERS - 1}, of a training run)",
    )
    take(
        "char_cnn.max_characters_per_token",
        lambda value: _whole(value) and value == MAX_CHARACTERS,
        f"{MAX_CHARACTERS}, the length of words in tfnlp",
    )
    filters = take(
        "char_cnn.filters",
        lambda value: isinstance(value, list) and value != [] and all(map(_filter, value)),
        f"pairs [width, number], of widths from 1 to {MAX_CHARACTERS} and numbers from 1",
    )
    if not faults and found["units"] <= found["projection_size"]:
        faults.append(
            f"lstm.dim={found['units']} is not above "
            f"lstm.projection_dim={found['projection_size']}, and bilm-tf then has no projection "
            "in its LSTMs, which tfnlp's always have"
        )
    if faults:
        raise ValueError(f"{path} does not fit ELMo in {len(faults)} places: {'; '.join(faults)}")
    return {**found, "num_characters": CHARACTERS, "filters": tuple(map(tuple, filters))}


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


def _whole(value: Any) -> bool:
    return type(value) is int


def _clip(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1e6


def _filter(pair: Any) -> bool:
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(map(_whole, pair))
        and 1 <= pair[0] <= MAX_CHARACTERS
        and 1 <= pair[1] < 2**31
    )
