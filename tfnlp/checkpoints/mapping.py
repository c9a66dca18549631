"""Conversion between the tensors of a checkpoint and the weights of a model by tables of names."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np

from tfnlp.checkpoints.formats.tensors import FLOATS, Tensors
from tfnlp.checkpoints.names import Row, TensorNames
from tfnlp.text.lines import shown

_LISTED = 10  # faults that a message spells out
Shape = tuple[int, ...]


def table_names(
    tensors: Tensors, canonical: Callable[[str], str | None], ignore: Sequence[str]
) -> dict[str, str]:
    """Return a dict of the name in a table to the name in the file.

    `canonical` is the function of the latter to the former, or to None for a tensor that is no
    weight. Names that begin with one of `ignore` are left out. Torch's `DataParallel` has put
    `module.` before all of them.
    """
    names: dict[str, str] = {}
    for original in tensors:
        plain = original.removeprefix("module.")
        name = None if plain.startswith(tuple(ignore)) else canonical(plain)
        if name is None:
            continue
        if name in names:
            raise ValueError(
                f"{tensors.path} holds one tensor twice, as {shown(names[name])} and as "
                f"{shown(original)}; `ignore` can leave one out"
            )
        names[name] = original
    return names


def recognise(
    formats: Sequence[TensorNames], title: str, tensors: Tensors, ignore: Sequence[str]
) -> tuple[TensorNames, dict[str, str]]:
    """Return the file's format, and a dict of its names to those in the file."""
    for form in formats:
        names = table_names(tensors, form.canonical, ignore)
        if any(name.startswith(form.beginning) for name in names):
            return form, names
    hints = " or with ".join(form.hint for form in formats)
    raise ValueError(
        f"{tensors.path} holds no {title}: expected names that begin with {hints}, found "
        f"{shown(list(tensors)[:3])}"
    )


def check_layers(
    tensors: Tensors,
    names: Mapping[str, str],
    layer: re.Pattern[str],
    config_path: pathlib.Path,
    key: str,
    num_layers: int,
) -> None:
    """Raise ValueError if the file holds another number of layers than its configuration states.

    Called before any table of names is made: that of a billion layers would fill the memory.
    `layer` matches the names of a layer's tensors, its group is the index.
    """
    held = len({found[1] for found in map(layer.match, names) if found})
    if held != num_layers:
        raise ValueError(
            f"{config_path} asks for {key}={num_layers}, but {tensors.path} holds {held} layers; "
            "do the files belong together?"
        )


def separate_copies(copies: Mapping[str, str], names: dict[str, str]) -> dict[str, str]:
    """Remove the tensors that a file may hold twice from `names`, and return them.

    An original that is absent gets the name of its copy. `copies` has names in the table, a copy's
    to the original's; what is returned has those in the file.
    """
    twice: dict[str, str] = {}
    for copy, name in copies.items():
        if copy in names:
            original = names.pop(copy)
            if name in names:
                twice[original] = names[name]
            else:
                names[name] = original
    return twice


def check_copies(tensors: Tensors, copies: Mapping[str, str], reason: str) -> None:
    """Raise ValueError if a copy, from `separate_copies`, has other values than its original."""
    for copy, name in copies.items():
        if tensors.shapes[copy] != tensors.shapes[name] or not np.array_equal(
            tensors[copy], tensors[name]
        ):
            raise ValueError(
                f"{tensors.path} has different values in {shown(copy)} and {shown(name)}; {reason}"
            )


def stored_shapes(rows: Mapping[str, Row], weight_shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """Return a dict of tensor name to the shape that the checkpoint must have for the weights."""
    shapes = {}
    for path, row in rows.items():
        *lead, last = weight_shapes[path]
        shape = (*lead, last // len(row.names))
        stored = shape[::-1] if row.transposed else (1, *shape) if row.convolution else shape
        shapes.update(dict.fromkeys(row.names, stored))
    return shapes


def check_tensors(
    tensors: Tensors, names: Mapping[str, str], expected: Mapping[str, Shape], hint: str
) -> None:
    """Compare the tensors of a file with those that a model needs, before any is read.

    `names` and `expected` have the names in the table as keys; `hint` ends the message.
    """
    faults = [
        f"missing {shown(name)}, expected {list(shape)}"
        for name, shape in expected.items()
        if name not in names
    ]
    for name, original in names.items():
        shape, dtype = tensors.shapes[original], tensors.dtypes[original]
        if name not in expected:
            faults.append(f"surplus {shown(original)}, found {list(shape)}")
        elif shape != expected[name]:
            faults.append(
                f"misshapen {shown(original)}, found {list(shape)}, expected {list(expected[name])}"
            )
        elif dtype not in FLOATS:
            faults.append(f"{shown(original)} has dtype {dtype[:40]}, expected floating point")
    if faults:
        listed = "; ".join(faults[:_LISTED])
        more = f"; and {len(faults) - _LISTED} more" if len(faults) > _LISTED else ""
        raise ValueError(
            f"{tensors.path} does not fit the model in {len(faults)} tensors: {listed}{more} "
            f"({hint})"
        )


def read_weights(
    tensors: Tensors,
    names: Mapping[str, str],
    rows: Mapping[str, Row],
    shapes: Mapping[str, Shape],
    hint: str,
) -> dict[str, np.ndarray]:
    """Return a dict of weight path to array, once `check_tensors` has found nothing wrong."""
    check_tensors(tensors, names, stored_shapes(rows, shapes), hint)
    return weights_from_tensors(rows, lambda name: tensors[names[name]])


def weights_from_tensors(
    rows: Mapping[str, Row], read: Callable[[str], np.ndarray]
) -> dict[str, np.ndarray]:
    """Return a dict of weight path to array; `read(name)` returns a tensor of the table."""
    weights = {}
    for path, row in rows.items():
        parts = [read(name) for name in row.names]
        if row.transposed:
            parts = [part.T for part in parts]
        elif row.convolution:
            parts = [part[0] for part in parts]
        weights[path] = np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
    return weights


def tensors_from_weights(rows: Mapping[str, Row], model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of tensor name to contiguous float32 array for the weights of `model`."""
    weights, tensors = {weight.path: weight for weight in model.weights}, {}
    for path, row in rows.items():
        array = np.asarray(weights[path].numpy()).astype(np.float32)
        parts = np.split(array, len(row.names), axis=-1)
        for name, part in zip(row.names, parts, strict=True):
            tensors[name] = np.ascontiguousarray(part.T if row.transposed else part)
    return tensors


def assign(model: keras.Model, weights: Mapping[str, np.ndarray]) -> None:
    """Set every weight of `model` from a dict of path to array."""
    for variable in model.weights:
        variable.assign(weights[variable.path])
