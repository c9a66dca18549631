"""Conversion between the tensors of a checkpoint and the weights of a model by tables of names."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import keras
import numpy as np

from tfnlp.checkpoints.formats.tensors import FLOATS, Tensors
from tfnlp.text.lines import shown

_LISTED = 10  # faults that a message spells out
Shape = tuple[int, ...]
BERT_LAYER = re.compile(r"encoder\.layer\.(\d+)\.")
UNTIED = "untied"  # among heads: that of the masked LM has a table of its own
LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


class Row(NamedTuple):
    """How one weight is stored: as one tensor, or as several side by side on the last axis.

    Attributes:
        names: the tensors' names.
        transposed: whether each of them is stored as the transpose.
        convolution: whether each is stored as the kernel of a convolution of width 1,
            `[1, in, out]`.
    """

    names: tuple[str, ...]
    transposed: bool = False
    convolution: bool = False


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


@dataclass(frozen=True)
class NameTable:
    """A table of weight path to `Row` under construction, in the words of one format.

    Attributes:
        gamma, beta, kernel, bias: last parts of the names of a norm's and a dense layer's tensors,
            with the separator.
        transposed, convolution: how kernels are stored, see `Row`.
        rows: the table.
    """

    gamma: str
    beta: str
    kernel: str
    bias: str
    transposed: bool = False
    convolution: bool = False
    rows: dict[str, Row] = field(default_factory=dict)

    def tensor(self, path: str, name: str, transposed: bool = False) -> None:
        """Add one weight that is stored as one tensor."""
        self.rows[path] = Row((name,), transposed)

    def norm(self, path: str, name: str) -> None:
        """Add the two weights of a layer norm."""
        self.tensor(f"{path}/gamma", name + self.gamma)
        self.tensor(f"{path}/beta", name + self.beta)

    def dense(self, path: str, *names: str) -> None:
        """Add kernel and bias of a dense layer, stored as one or as several side by side."""
        kernels = tuple(name + self.kernel for name in names)
        self.rows[f"{path}/kernel"] = Row(kernels, self.transposed, self.convolution)
        self.rows[f"{path}/bias"] = Row(tuple(name + self.bias for name in names))

    def masked_lm(self, dense: str, norm: str, bias: str, table: str = "") -> None:
        """Add the head of a masked language model, with a `table` of its own if it has one."""
        self.dense("masked_lm_head/dense", dense)
        self.norm("masked_lm_head/norm", norm)
        self.tensor("masked_lm_bias/bias", bias)
        if table:
            self.tensor("masked_lm_table/embeddings", table)


def torch_names() -> NameTable:
    """Return an empty table in the words of PyTorch's `Linear` and `LayerNorm`."""
    return NameTable(".weight", ".bias", ".weight", ".bias", transposed=True)


def bert_embeddings(table: NameTable, segments: bool = True) -> None:
    """Add the tables of tokens, positions and segments, and the layer norm of their sum."""
    kinds = {"token": "word", "position": "position", "segment": "token_type"}
    for ours, theirs in kinds.items():
        if segments or ours != "segment":
            path = f"{ours}_embedding/embeddings"
            table.tensor(path, f"embeddings.{theirs}_embeddings.weight")
    table.norm("embedding_norm", "embeddings.LayerNorm")


def bert_layers(table: NameTable, num_layers: int) -> None:
    """Add the Transformer's blocks."""
    for i in range(num_layers):
        path, name = f"layer_{i}", f"encoder.layer.{i}"
        attention = f"{name}.attention.self"
        parts = (f"{attention}.{part}" for part in ("query", "key", "value"))
        table.dense(f"{path}/attention/qkv", *parts)
        table.dense(f"{path}/attention/output", f"{name}.attention.output.dense")
        table.norm(f"{path}/attention_norm", f"{name}.attention.output.LayerNorm")
        table.dense(f"{path}/intermediate", f"{name}.intermediate.dense")
        table.dense(f"{path}/output", f"{name}.output.dense")
        table.norm(f"{path}/output_norm", f"{name}.output.LayerNorm")
