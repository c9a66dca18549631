"""From a checkpoint's tensors to a model's weights and back, by a table of names."""

from typing import NamedTuple

import numpy as np

from tfnlp.convert.formats.tensors import FLOATS, shown

_LISTED = 10  # faults that a message spells out


class Row(NamedTuple):
    """How one weight is stored: as one tensor, or as several side by side on the last axis.

    Attributes:
        names: the tensors' names.
        transposed: whether each of them is stored as the transpose.
    """

    names: tuple[str, ...]
    transposed: bool = False


def stored_shapes(rows, weight_shapes):
    """Dict of tensor name to the shape that the checkpoint must have for these weights."""
    shapes = {}
    for path, row in rows.items():
        *lead, last = weight_shapes[path]
        shape = (*lead, last // len(row.names))
        shapes.update(dict.fromkeys(row.names, shape[::-1] if row.transposed else shape))
    return shapes


def check_tensors(tensors, names, expected, hint):
    """Compares what a file holds with what a model needs, before anything is read.

    Args:
        tensors: a `Tensors`.
        names: dict of the name in the table to the name in the file.
        expected: dict of the name in the table to the shape.
        hint: what to do, the end of the message.

    Raises:
        ValueError: one line that lists missing, surplus and misshapen tensors.
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


def weights_from_tensors(rows, read):
    """Dict of weight path to array; `read(name)` gives a tensor of the table."""
    weights = {}
    for path, row in rows.items():
        parts = [read(name) for name in row.names]
        parts = [part.T if row.transposed else part for part in parts]
        weights[path] = np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
    return weights


def tensors_from_weights(rows, weights):
    """Dict of tensor name to contiguous float32 array; `weights` maps a path to an array."""
    tensors = {}
    for path, row in rows.items():
        parts = np.split(np.asarray(weights[path]).astype(np.float32), len(row.names), axis=-1)
        for name, part in zip(row.names, parts, strict=True):
            tensors[name] = np.ascontiguousarray(part.T if row.transposed else part)
    return tensors


def assign(model, weights):
    """Writes every weight of `model` from the dict of path to array."""
    for variable in model.weights:
        variable.assign(weights[variable.path])
