"""Checks of a run's `config.json`: its sections become arguments of functions that make models.

A damaged or made-up file must choose neither other arguments than a run writes nor a model that
the files beside it could not fill.
"""

import inspect
import os
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from tfnlp.checkpoints.sentence_transformers import ACTIVATIONS as DENSE_ACTIVATIONS
from tfnlp.checkpoints.sentence_transformers import NORMALIZE, SIMILARITIES
from tfnlp.files import folder_size
from tfnlp.layers.activations import ACTIVATIONS
from tfnlp.layers.attention_scores import ATTENTIONS
from tfnlp.models import shapes
from tfnlp.settings.options import element_type
from tfnlp.settings.training import MOST_LAYERS
from tfnlp.settings.use import POOLINGS
from tfnlp.tasks.texts import LABEL_TYPES
from tfnlp.text.lines import shown

_LAYERS = ("num_layers", "num_highway", "lstm_layers")
_FROM_ZERO = ("num_highway", "lstm_layers", "texts", "choices", "classes", "hidden_size")
_RATES = ("dropout", "attention_dropout")
_ANY_SIGN = ("threshold", "mean", "deviation", "means", "deviations")
_MAY_BE_NONE = ("num_samples", "cell_clip", "projection_clip", "attention")
_NAMED = {
    "activation": ACTIVATIONS,
    "attention": ATTENTIONS,
    "pooling": POOLINGS,
    "architecture": ("skipgram", "cbow"),
    "loss": ("negative", "softmax", "hierarchical", "nce"),
    "label_type": LABEL_TYPES,
    "similarity": SIMILARITIES,
}


def config_path(directory: str | os.PathLike[str]) -> str:
    """Return the path of a run's configuration."""
    return os.path.join(os.fspath(directory), "config.json")


def section(
    directory: str, run: dict[str, Any], where: str, function: Callable, left_out: Collection[str]
) -> dict[str, Any]:
    """Return all arguments of `function` but some: those that the run states, and the defaults.

    `where` is the section, such as "arguments" or "backbone.arguments".
    """
    path, given = config_path(directory), find(directory, run, where)
    if not isinstance(given, dict):
        wrong(directory, where, given, "an object")
    arguments = {}
    hints = typing.get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in left_out:
            continue
        if name not in given and parameter.default is inspect.Parameter.empty:
            raise ValueError(f"{path} lacks {where}.{name}; restore it or start anew")
        arguments[name] = given.get(name, parameter.default)
        if name in given:
            valid, expected = _judged(given[name], name, parameter.default, hints.get(name, Any))
            if not valid:
                wrong(directory, f"{where}.{name}", given[name], expected)
    for name in given:
        if name not in arguments:
            wrong(directory, where, name, f"only {', '.join(arguments)} in it")
    return arguments


def check_size(directory: str, numbers: int) -> None:
    """Check that the files of a run can fill a model of so many numbers."""
    if not os.path.isdir(os.path.join(directory, "checkpoints")):
        raise FileNotFoundError(f"{directory} holds no checkpoint; train before you use the run")
    held = folder_size(directory)
    if 4 * numbers > held:
        raise ValueError(
            f"{config_path(directory)} asks for a model of {numbers} numbers, but the files of the "
            f"run have {held} bytes; do they belong together?"
        )


def count_weights(directory: str, build: Callable[..., Any], arguments: dict[str, Any]) -> int:
    """Return how many weights a model of these arguments has, without making it."""
    try:
        return shapes.count_weights(build, arguments)
    except (ValueError, TypeError, OverflowError, ZeroDivisionError) as error:
        said = " ".join(str(error).split())[:300]
        raise ValueError(
            f"{config_path(directory)} describes no model that can be made: {said}"
        ) from error


def find(directory: str, run: dict[str, Any], where: str) -> Any:
    """Return the value at a place such as "text.lowercase"."""
    value = run
    for key in where.split("."):
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"{config_path(directory)} lacks {where}; restore it or start anew")
        value = value[key]
    return value


def stated(directory: str, run: dict[str, Any], where: str, choices: Collection[Any]) -> Any:
    """Return the value at a place, which must be one of `choices`."""
    value = find(directory, run, where)
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return value
    wrong(directory, where, value, f"one of {list(choices)}")


def text_flag(directory: str, run: dict[str, Any], name: str) -> bool:
    """Return a true or false value of section "text"."""
    return stated(directory, run, f"text.{name}", (True, False))


def whole_number(directory: str, run: dict[str, Any], where: str) -> int:
    """Return a whole number from 1 at a place."""
    value = find(directory, run, where)
    if not _is_whole(value):
        wrong(directory, where, value, "a whole number from 1")
    return value


def wrong(directory: str, where: str, value: Any, expected: str) -> NoReturn:
    """Raise ValueError for a value that can't stand at a place."""
    raise ValueError(f"{config_path(directory)} has {where}={shown(value)}; expected {expected}")


def _judged(value: Any, name: str, default: Any, hint: Any) -> tuple[bool, str]:
    """Return whether a value can stand in place of a default, and what can."""
    optional = default is None or name in _MAY_BE_NONE
    if optional and value is None:
        return True, ""
    if name in _NAMED:
        named = _NAMED[name]
        said = f"one of {', '.join(named)}{', or null' if optional else ''}"
        values = value if hint == tuple[str, ...] and isinstance(value, list) else [value]
        return bool(values) and all(isinstance(v, str) and v in named for v in values), said
    if name == "modules":
        return isinstance(value, list) and all(map(_is_module, value)), "a list of layers"
    if name == "filters":
        valid = isinstance(value, list) and 1 <= len(value) <= MOST_LAYERS
        valid = valid and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
        valid = valid and all(_is_whole(number) for pair in value for number in pair)
        return valid, f"up to {MOST_LAYERS} pairs of whole numbers from 1"
    if name == "negatives":
        return _is_number(value, 1e-9, 1e6), "a number above 0"
    if hint == Mapping[str, str]:
        valid = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
        return valid, "an object of texts"
    if hint is str:
        return isinstance(value, str), "a text"
    if hint == tuple[str, ...]:
        valid = isinstance(value, list) and all(isinstance(v, str) for v in value)
        return valid, "a list of texts"
    if hint == tuple[float, ...]:
        low, high = (-1e9, 1e9) if name in _ANY_SIGN else (0, 1)
        valid = isinstance(value, list) and all(_is_number(v, low, high) for v in value)
        return valid, f"a list of numbers from {low} to below {high}"
    if type(default) is bool:
        return type(value) is bool, "true or false"
    if type(default) is float or element_type(hint)[0] is float:
        low, high = (-1e9, 1e9) if name in _ANY_SIGN else (0, 1 if name in _RATES else 1e6)
        return _is_number(value, low, high), f"a number from {low} to below {high}"
    low = 0 if name in _FROM_ZERO else 1
    high = MOST_LAYERS if name in _LAYERS else 2**31 - 1
    return _is_whole(value, low, high), f"a whole number from {low} to {high}"


def _is_whole(value: Any, low: int = 1, high: int = 2**31 - 1) -> bool:
    return type(value) is int and low <= value <= high


def _is_number(value: Any, low: float, high: float) -> bool:
    return type(value) in (int, float) and low <= value < high


def _is_module(value: Any) -> bool:
    """Return whether JSON has the form of one of `SentenceSettings.modules`."""
    if not isinstance(value, dict):
        return value == NORMALIZE
    return (
        value.keys() == {"units", "activation", "use_bias"}
        and _is_whole(value["units"])
        and value["activation"] in tuple(DENSE_ACTIVATIONS.values())
        and type(value["use_bias"]) is bool
    )
