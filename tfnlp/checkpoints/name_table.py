"""Tables of tensor names, written layer by layer."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfnlp.checkpoints.mapping import Row


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

    def masked_lm(self, dense: str, norm: str, bias: str) -> None:
        """Add the head of a masked language model; its table is that of the encoder."""
        self.dense("masked_lm_head/dense", dense)
        self.norm("masked_lm_head/norm", norm)
        self.tensor("masked_lm_bias/bias", bias)


def torch_names() -> NameTable:
    """Return an empty table in the words of PyTorch's `Linear` and `LayerNorm`."""
    return NameTable(".weight", ".bias", ".weight", ".bias", transposed=True)
