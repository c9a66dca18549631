"""The variables of a loaded module as Keras variables, without copies."""

import contextlib
import re
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.loading.traces import Trace, graphs_of

_NOT_A_PATH = re.compile(r"[^A-Za-z0-9_.\-/]")
_NEEDS_HOST = ("LookupTable", "HashTable", "MutableHashTable", "Unicode", "RegexReplace")


def wrapped_variables(
    module: Any, freeze: str | list[str] | None, label: str
) -> list[keras.Variable]:
    """Return the module's `variables` and `trainable_variables` as a list of `keras.Variable`s.

    Each holds the `tf.Variable` itself, under the path that it was saved with. It is trainable if
    the module trains it and no pattern of `freeze` is found in its path. A variable that two
    layers share is the same `keras.Variable` in both.
    """
    trained = list(getattr(module, "trainable_variables", None) or ())
    trained_ids = {id(v) for v in trained}
    others = getattr(module, "variables", None) or ()
    variables = trained + [v for v in others if id(v) not in trained_ids]
    order = {id(v): i for i, v in enumerate(others)}  # as the module lists them
    variables.sort(key=lambda v: order.get(id(v), -1))
    patterns = _compiled(freeze)
    used, wrapped = set(), []
    for variable in variables:
        path = _unique(_NOT_A_PATH.sub("_", variable.name.split(":")[0]).strip("/"), used)
        matches = [p for p in patterns if p.search(path)]
        for pattern in matches:
            patterns[pattern] = True
        wrapped.append(_wrapped(variable, path, id(variable) in trained_ids and not matches))
    for pattern, found in patterns.items():
        if not found:
            some = ", ".join(sorted(used)[:3]) or "none"
            raise ValueError(
                f"freeze={pattern.pattern!r} is found in no variable of {label}; it has {some}, ..."
            )
    return wrapped


def is_compilable(traces: list[Trace], function: Callable) -> bool:
    """Return whether XLA may compile it: no strings as inputs or outputs, and no lookup tables."""
    specs = tf.nest.flatten([(trace.inputs, trace.outputs) for trace in traces])
    if not specs or any(spec.dtype == tf.string for spec in specs if hasattr(spec, "dtype")):
        return False
    library = graphs_of(function)[0].graph.as_graph_def().library
    return not any(
        node.op.startswith(_NEEDS_HOST) for body in library.function for node in body.node_def
    )


def _compiled(freeze: str | list[str] | None) -> dict[re.Pattern, bool]:
    patterns = [freeze] if isinstance(freeze, str) else list(freeze or ())
    try:
        return {re.compile(pattern): False for pattern in patterns}
    except (re.error, TypeError) as error:
        raise ValueError(
            f"freeze={freeze!r} must be a regular expression or a list of them ({error})"
        ) from error


def _unique(path: str, used: set[str]) -> str:
    path = path or "variable"
    scope, _, name = path.rpartition("/")
    unique, number = path, 0
    while unique in used:  # the last part is kept: weight decay selects variables by it
        number += 1
        unique = f"{scope or 'variable'}_{number}/{name}"
    used.add(unique)
    return unique


def _wrapped(variable: tf.Variable, path: str, trainable: bool) -> keras.Variable:
    """Return the same `tf.Variable` as a Keras variable."""
    known = getattr(variable, "_tfnlp_wrapped", None)
    if known is not None:
        return known
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        wrapped = keras.Variable(
            variable, dtype=variable.dtype.name, trainable=trainable, autocast=False, name=name
        )
    variable._tfnlp_wrapped = wrapped
    return wrapped
