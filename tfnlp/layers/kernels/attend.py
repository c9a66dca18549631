"""Attention of one decoder step to the source inside `attention_loop`, and its gradient."""

import dataclasses
from typing import Any

from keras import ops

from tfnlp.layers.attention_scores import TINY, energies, project_queries
from tfnlp.layers.kernels.lstm_loop import matmul
from tfnlp.layers.types import Tensor

Tensors = dict[str, Any]  # tensors, lists and dicts of them by name


@dataclasses.dataclass(frozen=True)
class Fixed:
    """Settings and constants of the recurrence, which get no gradient.

    Args:
        feeding: the attentional vector `h~ = tanh([c; h] W_o)` is fed to the next step, and is
            the output. Otherwise the context is fed to the cell, and `[c; h]` is the output.
        unit_queries: of the score, see `project_queries`.
        bias: float32 `[B, 1, S]` or 0.0, added to the energies.
        drops: for each layer but the first, the factors of its input from the layer below,
            `[T, B, U]`; or empty.
    """

    feeding: bool
    unit_queries: bool
    bias: Tensor
    drops: tuple[Tensor, ...] = ()

    def by_time(self) -> dict[str, Tensor]:
        """Return the factors by the names that a step reads them by."""
        return {f"drop_{i}": drop for i, drop in enumerate(self.drops, 1)}


def attend(h: Tensor, tensors: Tensors, fixed: Fixed) -> tuple[Tensor, Tensor, Tensor]:
    """Return the context float32 `[B, D]`, its weights `[B, S]` and the query `[B, A]`."""
    keys, values, weights = tensors["keys"], tensors["values"], tensors["weights"]
    query = project_queries(ops.cast(h, keys.dtype), weights.get("query"), fixed.unit_queries)
    scores = energies(query[:, None], keys, weights.get("vector"))  # [B, 1, S]
    attention = ops.softmax(scores + fixed.bias, axis=-1)
    context = ops.matmul(ops.cast(attention, values.dtype), values)  # [B, 1, D]
    return float32(context[:, 0]), attention[:, 0], float32(query)


def attend_gradient(d_context: Tensor, x: Tensors, tensors: Tensors, fixed: Fixed) -> Tensors:
    """Return the gradients of h, of the query and of the energies.

    With an additive score also what the step adds to the gradient of the vector v and to that of
    the keys, the latter without its factor v: `slopes`.
    """
    keys, values, weights = tensors["keys"], tensors["values"], tensors["weights"]
    d_attention = float32(ops.matmul(values, ops.cast(d_context, values.dtype)[:, :, None]))[..., 0]
    d_attention = d_attention + x["d_attention"]  # [B, S]
    a = x["attention"]
    d_energy = a * (d_attention - ops.sum(a * d_attention, -1, keepdims=True))
    narrow = ops.cast(d_energy, keys.dtype)
    if "vector" in weights:
        hidden = ops.tanh(ops.cast(x["query"], keys.dtype)[:, None] + keys)  # [B, S, A]
        slopes = float32(narrow[:, :, None] * (1.0 - ops.square(hidden)))
        d_query = ops.sum(slopes, axis=1) * float32(weights["vector"])  # [B, A]
        flat = ops.reshape(hidden, (-1, hidden.shape[-1]))
        d_vector = ops.matmul(ops.reshape(narrow, (1, -1)), flat)[0]
        more = {"slopes": slopes, "vector": float32(d_vector)}
        d_h = float32(matmul(d_query, ops.transpose(weights["query"])))
    else:
        d_h = d_query = float32(ops.matmul(narrow[:, None], keys))[:, 0]
        more = {}
        if fixed.unit_queries:  # q = h / |h|
            query, h = x["query"], x["queried"]
            d_h = d_h - query * ops.sum(query * d_h, -1, keepdims=True)
            d_h = d_h * ops.rsqrt(ops.sum(h * h, -1, keepdims=True) + TINY)
    return {"h": d_h, "query": d_query, "energy": d_energy, **more}


def float32(x: Tensor) -> Tensor:
    """Return x as float32."""
    return ops.cast(x, "float32")
