"""An `Inspection` as a text table for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfnlp.hub.inspection.saved_graph import Function
from tfnlp.hub.inspection.usage import quoted
from tfnlp.hub.loading.traces import Trace, described, printable, shown_shape

if TYPE_CHECKING:
    from tfnlp.hub.inspection.inspect import Inspection

INTERFACES = {
    "reusable": "Reusable SavedModel: callable, lists its variables",
    "callable": "callable, but does not list its variables",
    "keras2": "Keras 2 model: callable, lists its variables",
    "keras3": "Keras 3 export: functions and signatures, not callable",
    "functions": "functions and signatures, not callable",
    "signatures": "signatures only",
    "tf1": "TensorFlow 1: signatures only",
}
_LARGEST, _VARIANTS, _OPS = 5, 8, 6  # how many are shown
_WIDTH, _NAME = 96, 56


def as_text(found: Inspection) -> str:
    """Return an `Inspection` as text, without the escape sequences that a name may hold."""
    return "\n".join([
        found.path if found.path.isprintable() else quoted(found.path),
        *_indented(_table(_summary(found))),
        *_section("card", [(printable(k), printable(text)) for k, text in found.card.items()]),
        *(line for function in found.functions for line in _function(function)),
        *(line for signature in found.signatures for line in _function(signature, True)),
        *_variables(found),
        *_section("assets", [(printable(name), _bytes(n)) for name, n in found.assets.items()]),
        *(["use", *_indented(found.usage.split("\n"))] if found.usage else []),
    ])  # fmt: skip


def _summary(found: Inspection) -> Iterator[tuple[str, str]]:
    losses = found.regularization_losses
    tuned = f"no: {found.obstacle}"
    if found.obstacle is None:
        tuned = f"yes, {found.trainable_parameters:,} of {found.parameters:,} parameters"
        tuned += f"; {losses} regularization loss{'es' * (losses != 1)}" if losses else ""
        tuned += "" if found.traced_for_training else "; not traced with training=True"
    yield "interface", INTERFACES[found.interface]
    yield "fine-tuning", tuned
    for library, ops in found.foreign_ops.items():
        more = f" and {len(ops) - _OPS} more" if len(ops) > _OPS else ""
        needs = f"import {library}, for" if library else "a library that registers"
        yield "needs", f"{needs} {', '.join(map(printable, ops[:_OPS]))}{more}"
    if not found.foreign_ops:
        yield "needs", "TensorFlow only"
    yield "written by", f"TensorFlow {printable(found.tensorflow_version or '?')}"
    parts = [f"{name} {_bytes(n)}" for name, n in found.size.items() if n]
    yield "size", f"{_bytes(sum(found.size.values()))}: {', '.join(parts)}"


def _section(title: str, rows: list[tuple[str, str]]) -> list[str]:
    return [title, *_indented(_table(rows))] if rows else []


def _function(function: Function, signature: bool = False) -> Iterator[str]:
    """Yield the lines of a function: for each way to call it, a heading and a table."""
    name = f"module.{function.name}".rstrip(".")
    if signature:
        name = f"module.signatures[{quoted(function.name)}]"
    variants = _variants(function.calls)
    for arguments, outputs in variants[:_VARIANTS]:
        heads, rows = [], []
        for key, values in arguments.items():
            if not any(isinstance(x, tf.TypeSpec) for x in tf.nest.flatten(values)):
                heads.append(
                    f"{printable(key)}={' | '.join(sorted(printable(str(x)) for x in values))}"
                )
                continue
            heads.append(printable(key))
            for i, value in enumerate(_counted(values)):
                rows += _rows("or" if i else printable(key), value)
        yield from _wrapped(f"{name}({', '.join(heads)})", _WIDTH, "    ")
        yield from _indented(_table([*rows, *_rows("returns", outputs)]))
    if len(variants) > _VARIANTS:
        yield f"{name}: {len(variants) - _VARIANTS} more ways to call it"


def _variants(calls: Sequence[Trace]) -> list[tuple[dict[str, list], Any]]:
    """Merge calls that differ in one argument only: to its alternatives and the outputs."""
    found = [({k: [v] for k, v in c.arguments.items()}, c.outputs) for c in calls]
    for name in dict.fromkeys(k for arguments, _ in reversed(found) for k in reversed(arguments)):
        merged = {}
        for arguments, outputs in found:
            rest = {k: v for k, v in arguments.items() if k != name}
            key = str((described(rest), described(outputs), name in arguments))
            if key not in merged:
                merged[key] = {k: list(v) for k, v in arguments.items()}, outputs
            elif name in arguments:
                known = merged[key][0][name]
                seen = {described(x) for x in known}
                known += [x for x in arguments[name] if described(x) not in seen]
        found = list(merged.values())
    return found


def _counted(values: list) -> list:
    """Return the alternatives; lists of equal tensors are merged, with all their lengths."""
    lengths, rest = {}, []
    for value in values:
        kinds = {described(x) for x in value} if type(value) is list else ()
        if len(kinds) == 1 and isinstance(value[0], tf.TypeSpec):
            lengths.setdefault(kinds.pop(), []).append(len(value))
        else:
            rest.append(value)
    return [f"list of {_numbers(n)}: {spec}" for spec, n in lengths.items()] + rest


def _numbers(counts: list[int]) -> str:
    counts = sorted(counts)
    if len(counts) > 2 and counts == list(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]} to {counts[-1]}"
    return " or ".join(map(str, counts))


def _rows(name: str, nest: Any, indent: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, description) of a nest and, indented, of its items."""
    if isinstance(nest, dict):
        yield f"{indent}{name}", "dict" if nest else "empty dict"
        for key in sorted(nest, key=str):
            yield from _rows(printable(str(key)), nest[key], f"{indent}  ")
    elif isinstance(nest, list | tuple):
        kind = "list" if isinstance(nest, list) else "tuple"
        kinds = {described(x) for x in nest}
        if len(kinds) == 1 and isinstance(nest[0], tf.TypeSpec):
            yield f"{indent}{name}", f"{kind} of {len(nest)}: {kinds.pop()}"
        else:
            yield f"{indent}{name}", f"{kind} of {len(nest)}"
            for i, x in enumerate(nest):
                yield from _rows(f"[{i}]", x, f"{indent}  ")
    else:
        yield f"{indent}{name}", described(nest)


def _variables(found: Inspection) -> Iterator[str]:
    listed = found.variables
    if not listed:
        return
    trained = sum(v.trainable for v in listed)
    dtypes = ", ".join(sorted({v.dtype.name for v in listed}))
    count = f"{len(listed)}, {trained} of them trainable"
    yield f"variables: {count}; {found.parameters:,} parameters, {dtypes}"
    if found.stored_variables > len(listed):
        yield f"  of {found.stored_variables} in the files, which also hold unlisted ones"
    largest = sorted(listed, key=lambda v: -v.parameters)[:_LARGEST]
    rows = [(printable(v.name), f"{v.dtype.name} {shown_shape(v.shape)}") for v in largest]
    yield from _indented(_table(rows))
    if len(listed) > _LARGEST:
        yield f"  and {len(listed) - _LARGEST} smaller"


def _bytes(n: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size / 10 and n >= 1e3:
            return f"{n / size:.2f} {unit}" if n < 10 * size else f"{n / size:,.0f} {unit}"
    return f"{n} B"


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of a table of two columns."""
    half = _NAME // 2  # of a long name the middle is left out
    rows = [
        (name if len(name) <= _NAME else f"{name[: half - 3]}...{name[-half:]}", text)
        for name, text in rows
    ]
    width = max((len(name) for name, _ in rows), default=0)
    lines = []
    for name, text in rows:
        for line in _wrapped(text, _WIDTH - width - 4):
            lines.append(f"{name:{width}}  {line}".rstrip())
            name = ""
    return lines


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
