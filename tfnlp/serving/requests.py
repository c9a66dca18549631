"""Bodies of requests to rows, or one line that says what is wrong with them."""

import json
import math
from collections.abc import Hashable
from typing import Any

from tfnlp.serving.action import Action, Field, Option, Row
from tfnlp.settings.serve import ServeSettings


class Refused(Exception):
    """A request that is not computed, with a status of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_rows(
    body: bytes, action: Action, limits: ServeSettings
) -> tuple[tuple[Hashable, ...], list[Row], int]:
    """Return what a request asks of an action.

    The body is JSON, `{"instances": [...], "options": {...}}`. An instance is a dict of the fields;
    of an action with one field also a string.

    Returns:
        the key of rows that may be computed together; the rows, options among their keys; and the
        number of texts in them.

    Raises:
        Refused: 422 for what the action does not take, 413 for too much of it.
    """
    asked = _parsed(body)
    instances = asked.get("instances")
    if not isinstance(instances, list) or not instances:
        raise _wrong("instances must be a list of one item or more")
    if len(instances) > limits.max_texts:  # before each is checked
        raise _too_many(len(instances), limits)
    options = _options(asked.get("options", {}), action)
    rows, count = [], 0
    for number, instance in enumerate(instances):
        row = _row(instance, number, action, limits)
        count += sum(len(x) if isinstance(x, list) else isinstance(x, str) for x in row.values())
        if count > limits.max_texts:
            raise _too_many(count, limits)
        rows.append({**row, **{name: value + number if name in _up(action) else value
                               for name, value in options.items()}})  # fmt: skip
    key = (action.name, *(v for name, v in sorted(options.items()) if name not in _up(action)))
    return key, rows, count


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"the body is not JSON ({type(error).__name__})") from error
    if not isinstance(asked, dict):
        raise _wrong('the body must be an object: {"instances": [...]}')
    unknown = sorted(set(asked) - {"instances", "options"})
    if unknown:
        raise _wrong(f"{unknown[0][:60]!r} is unknown; a body has instances and options")
    return asked


def _row(instance: Any, number: int, action: Action, limits: ServeSettings) -> Row:
    names = [field.name for field in action.fields]
    if isinstance(instance, str) and len(names) == 1:
        instance = {names[0]: instance}
    where = f"instance {number}"
    if not isinstance(instance, dict) or set(instance) != set(names):
        raise _wrong(f"{where} must be an object with {', '.join(names)} and nothing else")
    for field in action.fields:
        _check_value(instance[field.name], field, where, limits)
    if action.check is not None:
        try:
            action.check(instance)
        except ValueError as error:
            raise _wrong(f"{where}: {error}") from error
    return dict(instance)


def _check_value(value: Any, field: Field, where: str, limits: ServeSettings) -> None:
    where = f"{where}: {field.name}"
    if field.kind == "number":
        if type(value) is not int or not 0 <= value < 2**31:
            raise _wrong(f"{where} must be a whole number from 0")
        return
    if field.kind != "list":
        _check_text(value, field, where, limits)
        return
    if not (isinstance(value, list) and value):
        raise _wrong(f"{where} must be a list of one string or more")
    for number, text in enumerate(value):
        _check_text(text, field, f"{where}[{number}]", limits)


def _check_text(text: Any, field: Field, where: str, limits: ServeSettings) -> None:
    if not isinstance(text, str):
        raise _wrong(f"{where} must be a string")
    if not field.may_be_empty and not text.strip():
        raise _wrong(f"{where} is empty")
    if len(text) > limits.max_characters:
        raise Refused(
            413,
            f"{where} has {len(text):,} characters; at most {limits.max_characters:,} are allowed",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _wrong(f"{where} holds half of a surrogate pair, which is no text") from error


def _options(given: Any, action: Action) -> Row:
    known = {option.name: option for option in action.options}
    if not isinstance(given, dict):
        raise _wrong("options must be an object")
    for name in given:
        if name not in known:
            listed = f"known are {', '.join(known)}" if known else f"{action.name} has none"
            raise _wrong(f"option {name[:60]!r} is unknown; {listed}")
    return {
        name: _option(given.get(name, option.default), option) for name, option in known.items()
    }


def _option(value: Any, option: Option) -> bool | int | float:
    kind = type(option.default)
    if kind is bool:
        if type(value) is not bool:
            raise _wrong(f"option {option.name} must be true or false")
        return value
    if type(value) is not int and not (kind is float and type(value) is float):
        name = "a number" if kind is float else "a whole number"
        raise _wrong(f"option {option.name} must be {name}")
    if not (math.isfinite(value) and option.low <= value <= option.high):
        raise _wrong(f"option {option.name} must be from {option.low:g} to {option.high:g}")
    return kind(value)


def _up(action: Action) -> set[str]:
    """Return the names of the options that count up from row to row."""
    return {option.name for option in action.options if option.counts_up}


def _wrong(message: str) -> Refused:
    return Refused(422, message)


def _too_many(count: int, limits: ServeSettings) -> Refused:
    return Refused(
        413, f"the request has {count:,} texts; at most {limits.max_texts:,} are allowed"
    )
