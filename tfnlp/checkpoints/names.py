"""How the files of a format name the tensors of a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

UNTIED = "untied"  # among heads: that of the language model has a table of its own
LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
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
        hint: what `beginning` is, for messages.
        block: the layers of a block.
        prefix: what the names of a block begin with, `{}` for its number.
        heads: the name of each pretraining head, which is the argument of the pretrainer that asks
            for it, to its layers.
        words: the last parts of names.
        beginning: what a name in the table begins with (of several, one of them), if the file is
            of this format.
        base: the beginning that the table leaves out, and that only models with a head have.
        copies: tensors that some versions store twice, others once, under either name: the name of
            the copy to that of the tensor.
        buffers: matches the names of tensors that are no weights.
        renamed: endings of names in old files to those in the table.
    """

    layers: Layers
    hint: str = ""
    block: Layers = field(default_factory=lambda: BERT_BLOCK)
    prefix: str = "encoder.layer.{}."
    heads: Mapping[str, Layers] = field(default_factory=dict)
    words: Words = TORCH
    beginning: str | tuple[str, ...] = "embeddings."
    base: str = ""
    copies: Mapping[str, str] = field(default_factory=dict)
    buffers: re.Pattern[str] = _BUFFERS
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def pooler(self) -> str | None:
        """What the names of the pooler begin with; None if the encoder never has one."""
        return self.layers.get("pooler/dense")

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
        for old, new in self.renamed.items():
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
