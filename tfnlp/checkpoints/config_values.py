"""Checks of the values in configuration files."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tfnlp.text.lines import shown


def read_size(path: pathlib.Path, config: Mapping[str, Any], key: str, model: str) -> int:
    """Return `config[key]`, a whole number from 1 to below 2^31."""
    if key not in config:
        raise ValueError(f"{path} lacks {key}; is it the configuration of a {model}?")
    value = config[key]
    if type(value) is not int or not 1 <= value < 2**31:
        raise ValueError(
            f"{path} has {key}={shown(value)}; expected a whole number from 1 to below 2^31"
        )
    return value


def read_number(
    path: pathlib.Path,
    config: Mapping[str, Any],
    key: str,
    default: float,
    low: float,
    high: float,
) -> float:
    """Return `config[key]`, a number from `low` to below `high`, or the default if it is absent."""
    value = config.get(key, default)
    if type(value) not in (int, float) or not low <= value < high:
        raise ValueError(
            f"{path} has {key}={shown(value)}; expected a number from {low} to below {high}"
        )
    return float(value)


def read_activation(
    path: pathlib.Path,
    config: Mapping[str, Any],
    key: str,
    default: str,
    names: Mapping[str, str],
    advice: str = "",
) -> str:
    """Return tfnlp's name of the activation `config[key]`; `names` are the file's words for it."""
    stated = config.get(key, default)
    if type(stated) is not str or stated not in names:
        raise ValueError(
            f"{path} has {key}={shown(stated)}; expected one of {sorted(names)}{advice}"
        )
    return names[stated]


def written_activation(activation: str, names: Mapping[str, str], model: str) -> str:
    """Return the file's word for an activation: the first of `names` that means it."""
    for theirs, ours in names.items():
        if ours == activation:
            return theirs
    raise ValueError(
        f"activation={activation!r} has no name in Hugging Face's {model}; expected one of "
        f"{sorted(set(names.values()))}"
    )


def check_fixed(
    path: pathlib.Path, config: Mapping[str, Any], fixed: Mapping[str, Any], loader: str
) -> None:
    """Raise ValueError if the file has another value than `fixed` for one of its keys."""
    for key, only in fixed.items():
        if config.get(key, only) != only:
            raise ValueError(
                f"{path} has {key}={shown(config[key])}, but {loader} reads {key}={only!r} only"
            )
