"""Cross-entropy of many classes, of rows of logits and of a whole vocabulary in turns.

The logits of all positions `[N, V]` are the largest array of a language model's step: 8 GB for 96
rows of 512 tokens and 40,478 words. `vocabulary_loss` computes those of some positions,
their loss and at once their part of the gradients, so that no logit is kept and none is computed
twice.

With `z_n = h_n E^T + b`, `L = sum_n w_n (log sum_v exp(z_nv) - z_n,id)` and
`d_n = w_n (softmax(z_n) - onehot(id_n))`: `dL/dh_n = d_n E`, `dL/dE = sum_n d_n^T h_n` and
`dL/db = sum_n d_n`. Like the logits of a tied table, the products are in the dtype of h.
"""

from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.layers.kernels.backend import beside, entries, has_kernels, padded, with_gradient
from tfnlp.layers.kernels.products import plain_tied_projection, product, sum_of_rows

Named = dict[str, Tensor]


def plain_cross_entropy(z: Tensor, ids: Tensor, epsilon: float = 0.0) -> Tensor:
    """Return `-sum_v q_v log softmax(z)_v`, `q = (1 - epsilon) onehot(id) + epsilon / V`.

    Of logits z float32 `[N, V]` and int32 `[N]` it is float32 `[N]`. Epsilon smooths the labels.
    """
    size = z.shape[-1]
    q = ops.one_hot(ids, size, dtype="float32") * (1 - epsilon) + epsilon / size
    return -ops.sum(q * ops.log_softmax(z, -1), -1)


@beside(plain_cross_entropy)
def cross_entropy_of_rows(z: Tensor, ids: Tensor, epsilon: float = 0.0) -> Tensor:
    """Return what `plain_cross_entropy` returns, `log Z - (1 - epsilon) z_id - epsilon mean(z)`.

    Its gradient is `softmax(z) - q`. For XLA: neither q nor `log softmax(z)` is written to memory,
    and the target's logit is read by its index, which automatic differentiation would turn into a
    scatter.
    """

    @with_gradient
    def losses(z: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        largest = ops.max(z, axis=-1, keepdims=True)
        log_z = largest + ops.log(ops.sum(ops.exp(z - largest), axis=-1, keepdims=True))  # [N, 1]
        of_target = ops.take_along_axis(z, ids[:, None], axis=-1)
        loss = log_z - (1 - epsilon) * of_target
        if epsilon:
            loss -= epsilon * ops.mean(z, axis=-1, keepdims=True)

        def gradient(dy: Tensor) -> Tensor:
            is_target = ops.equal(ops.arange(z.shape[-1], dtype="int32"), ids[:, None])
            q = ops.where(is_target, 1.0 - epsilon, 0.0)
            q = q + epsilon / z.shape[-1] if epsilon else q
            return (ops.exp(z - log_z) - q) * dy[:, None]

        return loss[:, 0], gradient

    return losses(z)


def plain_vocabulary_loss(
    h: Tensor, table: Tensor, bias: Tensor | None, ids: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Return `L` and `sum_n w_n [id_n is the first v with the largest z_nv]`, float32 scalars.

    Of h `[N, H]`, a table E `[V, H]`, which is cast to the dtype of h, and a bias b, float32 `[V]`;
    the weights w, float32 `[N]`, get no gradient.
    """
    z = plain_tied_projection(h, ops.cast(table, h.dtype))
    z = _biased(z, bias)
    right = ops.cast(ops.equal(ops.cast(ops.argmax(z, -1), "int32"), ids), "float32")
    return ops.sum(plain_cross_entropy(z, ids) * weights), ops.sum(right * weights)


def positions_of(count: int, words: int, most: int) -> int:
    """Return how many of `count` positions to take at a time, for at most `most` logits."""
    turns = -(-count * words // most)
    for n in range(turns, 2 * turns):
        if count % (8 * n) == 0:
            return count // n
    return min(count, -(-count // turns // 8) * 8)  # the last turn has fewer


def vocabulary_loss(
    h: Tensor,
    table: Tensor,
    bias: Tensor | None,
    ids: Tensor,
    weights: Tensor,
    positions: int,
    hits: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return what `plain_vocabulary_loss` returns, computed `positions` at a time; N is static.

    Without `hits` the second sum is 0.
    """
    if not has_kernels():
        return plain_vocabulary_loss(h, table, bias, ids, weights)
    parts = [h, table] if bias is None else [h, table, bias]

    @with_gradient
    def losses(*parts: Tensor) -> tuple[tuple[Tensor, Tensor], Callable[..., Any]]:
        sums, gradients = _over_positions(parts, ids, weights, positions, hits)

        def gradient(upstream: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            scale = upstream[0]
            scaled = [ops.cast(g, "float32") * scale for g in gradients]
            return tuple(ops.cast(g, x.dtype) for g, x in zip(scaled, parts, strict=True))

        return sums, gradient

    return losses(*(ops.copy(x) for x in parts))  # TensorFlow takes no variables there


def _over_positions(
    parts: Sequence[Tensor], ids: Tensor, weights: Tensor, positions: int, hits: bool
) -> tuple[tuple[Tensor, Tensor], list[Tensor]]:
    """Return the two sums, and the gradients of `L`: `[N, H]`, float32 `[V, H]` and `[V]`."""
    h, table, *bias = parts
    count, turns = h.shape[0], -(-h.shape[0] // positions)
    rows = {"h": h, "ids": ids, "weights": weights}
    rows = {name: padded(x, turns * positions) for name, x in rows.items()}
    table = ops.cast(table, h.dtype)
    turned = ops.transpose(table)  # [H, V]

    def turn(at: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        some = {name: entries(x, at * positions, positions) for name, x in rows.items()}
        d_h, *found = _turn(some, hits, table, turned, *bias)
        d_h = ops.slice_update(state[0], (at * positions, 0), d_h)
        return d_h, *(total + x for total, x in zip(state[1:], found, strict=True))

    sums = [ops.zeros(x.shape, "float32") for x in (table, *bias)]
    zero = ops.zeros((), "float32")
    state = (ops.zeros_like(rows["h"]), zero, zero, *sums)
    d_h, loss, right, *sums = ops.fori_loop(0, turns, turn, state)
    return (loss, right), [d_h[:count], *sums]


def _turn(
    x: Named, hits: bool, table: Tensor, turned: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Return the gradient of h, the two sums, and the gradients of the table and the bias."""
    h, weights = x["h"], x["weights"]
    z = _biased(product(h, turned), bias)  # [R, V]
    words = ops.arange(z.shape[-1], dtype="int32")
    is_target = ops.equal(words, x["ids"][:, None])
    largest = ops.max(z, axis=-1, keepdims=True)
    log_z = largest + ops.log(ops.sum(ops.exp(z - largest), axis=-1, keepdims=True))
    of_target = ops.sum(ops.where(is_target, z, 0.0), axis=-1, keepdims=True)
    right = ops.zeros((), "float32")
    if hits:
        first = ops.min(ops.where(z >= largest, words, z.shape[-1]), axis=-1)
        right = ops.sum(ops.cast(ops.equal(first, x["ids"]), "float32") * weights)
    d_z = (ops.exp(z - log_z) - ops.where(is_target, 1.0, 0.0)) * weights[:, None]
    narrow = ops.cast(d_z, h.dtype)
    return (
        product(narrow, table),
        ops.sum((log_z - of_target)[:, 0] * weights),
        right,
        ops.cast(product(ops.transpose(narrow), h), "float32"),
        *([] if bias is None else [sum_of_rows(d_z)]),
    )


def _biased(z: Tensor, bias: Tensor | None) -> Tensor:
    z = ops.cast(z, "float32")
    return z if bias is None else z + bias
