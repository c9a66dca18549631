"""Names of tensors in the files of a format, and conversion to the weights of a model by them."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keras
import numpy as np

from tfnlp.checkpoints.formats.tensors import FLOATS, Tensors
from tfnlp.text.lines import shown

_LISTED = 10  # faults that a message spells out
Shape = tuple[int, ...]
UNTIED = "untied"  # among heads: that of the language model has a table of its own
_LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
_BUFFERS = re.compile(r"embeddings\.(position_ids|token_type_ids)")


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


class Words(NamedTuple):
    """The last parts of the names of a norm's, a dense layer's and a table's tensors.

    `transposed` and `convolution` say how kernels are stored, see `Row`.
    """

    gamma: str
    beta: str
    kernel: str
    bias: str
    table: str
    transposed: bool = False
    convolution: bool = False


TORCH = Words(".weight", ".bias", ".weight", ".bias", ".weight", transposed=True)
# Layer of a model to its name in the file, or to several that are stored side by side; what the
# layer is follows from its own name. The path of a weight may have a `Row`.
Layers = Mapping[str, str | tuple[str, ...] | Row]
BERT_EMBEDDINGS = {
    "token_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "segment_embedding": "embeddings.token_type_embeddings",
    "embedding_norm": "embeddings.LayerNorm",
}
BERT_BLOCK = {
    "attention/qkv": tuple(f"attention.self.{part}" for part in ("query", "key", "value")),
    "attention/output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}


@dataclass(frozen=True)
class TensorNames:
    """How one format names the tensors of an encoder and its heads.

    Attributes:
        layers: the layers outside of blocks; those that a model does not have are left out.
        hint: what `beginning` is, for messages; "": that is clear.
        block: the layers of a block.
        prefix: what the names of a block begin with, `{}` for its number.
        heads: the name of each pretraining head, which is the argument of the pretrainer that asks
            for it, to its layers.
        words: the last parts of names.
        beginning: what a name in the table begins with (of several, one of them), if the file is
            of this format.
        base: the beginning that the table leaves out, and that only models with a head have.
        buffers: matches the names of tensors that are no weights.
    """

    layers: Layers
    hint: str = ""
    block: Layers = field(default_factory=lambda: BERT_BLOCK)
    prefix: str = "encoder.layer.{}."
    heads: Mapping[str, Layers] = field(default_factory=dict)
    words: Words = TORCH
    beginning: str | tuple[str, ...] = "embeddings."
    base: str = ""
    buffers: re.Pattern[str] = _BUFFERS

    @property
    def pooler(self) -> str | None:
        """What the names of the pooler begin with; None if the encoder never has one."""
        return self.layers.get("pooler/dense")

    @property
    def copies(self) -> dict[str, str]:
        """Tensors that some versions store twice, others once, under either name.

        That is the name of the copy to that of the tensor: of a head's table the table of the
        encoder, of the bias beside it the head's own.
        """
        found, words = {}, self.words
        for layers in self.heads.values():
            for layer in layers:
                if layer.endswith("_table"):
                    found[layers[layer] + words.table] = (
                        self.layers["token_embedding"] + words.table
                    )
                    found[layers[layer] + words.bias] = layers.get("masked_lm_bias", "")
        return {copy: name for copy, name in found.items() if name not in ("", copy)}

    @property
    def biases(self) -> list[str]:
        """The copies that are biases, which are none where the table beside them is not tied."""
        return [name for name in self.copies if name.endswith(".bias")]

    @property
    def layer(self) -> re.Pattern[str] | None:
        """What matches the names of a layer's tensors; its group is the index.

        None if layers share their blocks, so that the names do not tell their number.
        """
        return re.compile(re.escape(self.prefix).replace(r"\{\}", r"(\d+)"))

    def beginnings(self, head: str) -> tuple[str, ...]:
        """Return what the names of a pretraining head's tensors begin with."""
        found: list[str] = []
        for names in self.heads[head].values():
            several = names.names if isinstance(names, Row) else names
            found += [several] if isinstance(several, str) else several
        return tuple(found)

    @property
    def outside(self) -> tuple[str, ...]:
        """What the names of the tensors of all pretraining heads begin with."""
        return tuple(name for head in self.heads for name in self.beginnings(head))

    def canonical(self, name: str) -> str | None:
        """Return the name in the table for one in the file; None for a buffer."""
        name = name.removeprefix(self.base)
        for old, new in _LEGACY.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        return None if self.buffers.fullmatch(name) else name

    def blocks(self, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the path of each block in a model with a slash, and what its names begin with."""
        for i in range(config["num_layers"]):
            yield f"layer_{i}/", self.prefix.format(i)

    def rows(
        self, config: Mapping[str, Any], paths: Collection[str] | None = None
    ) -> dict[str, Row]:
        """Return the table of weight path to `Row`, of the weights `paths` alone.

        `config` are the encoder's arguments.
        """
        rows = self._rows(self.layers)
        for path, prefix in self.blocks(config):
            rows |= self._rows(self.block, path, prefix)
        for layers in self.heads.values():
            rows |= self._rows(layers)
        return {path: row for path, row in rows.items() if paths is None or path in paths}

    def _rows(self, layers: Layers, path: str = "", prefix: str = "") -> dict[str, Row]:
        """Return the rows of layers below a path, whose names have a prefix."""
        words, rows = self.words, {}
        for layer, names in layers.items():
            if isinstance(names, Row):
                rows[layer] = names
                continue
            if layer.endswith("norm"):
                parts = {"gamma": words.gamma, "beta": words.beta}
            elif layer.endswith(("embedding", "table")):
                parts = {"embeddings": words.table}
            elif layer.endswith("bias"):
                parts = {"bias": ""}
            else:
                parts = {"kernel": words.kernel, "bias": words.bias}
            several = (names,) if isinstance(names, str) else names
            for part, end in parts.items():
                stored = tuple(prefix + name + end for name in several)
                how = (words.transposed, words.convolution) if part == "kernel" else ()
                rows[f"{path}{layer}/{part}"] = Row(stored, *how)
        return rows


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
    usual = (f"'{form.base}{form.beginning}' or '{form.beginning}'" for form in formats)
    hints = " or with ".join(form.hint or u for form, u in zip(formats, usual, strict=True))
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
