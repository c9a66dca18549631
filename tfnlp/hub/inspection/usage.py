"""Python code that loads and calls a given SavedModel."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfnlp.hub.inspection.saved_graph import is_name
from tfnlp.hub.loading.traces import Trace

EXAMPLE = "Hello, world!"
_WIDTH = 88
_LENGTH = 8  # of axes of unknown size; the batch size is 1
Code = str | tuple[str, list, str]  # or (opening, list of (prefix, code), closing)


def usage(
    path: str, target: str, call: Trace, imports: Sequence[str], tags: Sequence[str] | None
) -> str | None:
    """Return three statements that load and call a SavedModel; None if they can't be written.

    `target` is the expression that is called: `module`, or a function of it. Its arguments are
    strings, zeros, and ones for masks and lengths. `imports` are libraries that register
    operations; `tags` are those of the graph to load, None: the only one.
    """
    arguments = _arguments(call)
    if arguments is None:
        return None
    load = [("", quoted(path))]
    if tags is not None:
        load.append(("tags=", "[" + ", ".join(quoted(t) for t in tags) + "]"))
    statements = [
        "import tensorflow as tf" + "".join(f", {name}" for name in imports),
        _written("module = ", ("tf.saved_model.load(", load, ")")),
        _written("outputs = ", (f"{target}(", arguments, ")")),
    ]
    return "\n".join(statements)


def quoted(text: str) -> str:
    """Return `text` as a Python literal, in double quotes if it holds no quotes."""
    literal = repr(text)
    return f'"{literal[1:-1]}"' if "'" not in text and '"' not in text else literal


def _arguments(call: Trace) -> list[tuple[str, Code]] | None:
    """Return a list of (prefix, code), or None."""
    given = []
    by_place = len(call.args) > len(call.names)
    for i, (name, value) in enumerate(call.arguments.items()):
        fixed = not any(isinstance(x, tf.TypeSpec) for x in tf.nest.flatten(value))
        default = name in call.defaults and call.defaults[name] is value
        if fixed and default and not by_place and name != "training":
            continue
        code = _value(value, name)
        if code is None:
            return None
        if i < len(call.args) and (by_place or i == 0):
            given.append(("", code))
        elif is_name(name):
            given.append((f"{name}=", code))
        else:
            given.append(("**", ("{", [(f"{quoted(name)}: ", code)], "}")))
    return given


def _value(nest: Any, name: str) -> Code | None:
    """Return the code of a value; None if it can't be written."""
    if isinstance(nest, tf.TypeSpec):
        return _tensor(nest, name)
    if nest is None or type(nest) in (bool, int, float):
        return repr(nest)
    if type(nest) is str:
        return quoted(nest)
    if type(nest) is dict and all(type(key) is str for key in nest):
        items = [(f"{quoted(key)}: ", _value(nest[key], key)) for key in sorted(nest)]
        brackets = "{}"
    elif type(nest) in (list, tuple):
        items = [("", _value(x, name)) for x in nest]
        brackets = "[]" if type(nest) is list else ("(", ",)" if len(nest) == 1 else ")")
    else:
        return None
    return None if any(x is None for _, x in items) else (brackets[0], items, brackets[1])


def _tensor(spec: tf.TypeSpec, name: str) -> str | None:
    if type(spec) is tf.RaggedTensorSpec and spec.ragged_rank:
        dense = _dense(spec.shape, spec.dtype, name, spec.ragged_rank + 1)
        more = f", ragged_rank={spec.ragged_rank}" if spec.ragged_rank > 1 else ""
        if spec.row_splits_dtype != tf.int64:
            more += f", row_splits_dtype=tf.{spec.row_splits_dtype.name}"
        return dense and f"tf.RaggedTensor.from_tensor({dense}{more})"
    if type(spec) is tf.SparseTensorSpec:
        dense = _dense(spec.shape, spec.dtype, name)
        return dense and f"tf.sparse.from_dense({dense})"
    if isinstance(spec, tf.TensorSpec | tf.RaggedTensorSpec):
        return _dense(spec.shape, spec.dtype, name)
    return None


def _dense(shape: tf.TensorShape, dtype: tf.DType, name: str, rank: int = 1) -> str | None:
    if shape.rank is None:
        shape = tf.TensorShape([None] * rank)
    sizes = [_LENGTH if n is None else n for n in shape]
    if sizes and shape[0] is None:
        sizes[0] = 1
    if dtype == tf.string:
        if not sizes:
            return f'"{EXAMPLE}"'
        return f'tf.constant(["{EXAMPLE}"])' if sizes == [1] else f'tf.fill({sizes}, "hello")'
    if not (dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex):
        return None
    if not sizes and not dtype.is_complex:
        return f"tf.constant({'True' if dtype.is_bool else 1}, tf.{dtype.name})"
    filled = "ones" if any(part in name.lower() for part in ("mask", "len")) else "zeros"
    return f"tf.{filled}({sizes}, tf.{dtype.name})"


def _written(prefix: str, code: Code, indent: str = "", suffix: str = "") -> str:
    """Return code in one line if it fits, else with one item per line."""
    line = f"{indent}{prefix}{_line(code)}{suffix}"
    if isinstance(code, str) or len(line) <= _WIDTH:
        return line
    opening, items, closing = code
    inner = f"{indent}    "
    rows = [_written(before, item, inner, ",") for before, item in items]
    last = f"{indent}{closing.lstrip(',')}{suffix}"
    return "\n".join([f"{indent}{prefix}{opening}", *rows, last])


def _line(code: Code) -> str:
    if isinstance(code, str):
        return code
    opening, items, closing = code
    return opening + ", ".join(f"{before}{_line(item)}" for before, item in items) + closing
