"""Losses that rank the right text among all texts of a batch."""

from keras import ops

from tfnlp.layers.base import Tensor

_HIDDEN = -1e9
_SMALLEST_NORM = 1e-12


def ranking_losses(
    vectors: Tensor,
    text_ids: Tensor,
    weights: Tensor,
    temperature: float,
    both_ways: bool,
) -> tuple[Tensor, Tensor]:
    """Return the losses of anchors among the texts of a batch, and whether each ranks first.

    With a_i the first vector of example i, p_i its second and C all second vectors and all after
    them (hard negatives), of length 1, and s the temperature,

        L_i = -log (exp(a_i . p_i / s) / sum_{c in C} exp(a_i . c / s))

    (Henderson et al. 2017, section 4.4, with the cosines of Gao et al. 2021, SimCSE, equation 5),
    and with `both_ways` the mean of that and of the same with p_i among all anchors. A text is no
    negative of an equal one: of C those are left out that are the same text as a_i or p_i, or the
    right one of an anchor that is the same text as a_i, and those whose example has weight 0.

    Args:
        vectors: float32 `[N, S, D]`, S >= 2.
        text_ids: int32 `[N, S]`, equal for equal texts.
        weights: float32 `[N]`, 0 for examples that do not count.
        temperature: s.
        both_ways: see above.

    Returns:
        float32 `[N]` losses, and `[N]` 1.0 where no other text has a larger product than p_i.
    """
    count, texts = vectors.shape[0] or ops.shape(vectors)[0], vectors.shape[1]
    e = unit(vectors) * temperature**-0.5
    anchors, right = e[:, 0], e[:, 1]
    others = ops.concatenate([e[:, s] for s in range(1, texts)])  # [(S-1) N, D]
    ids_of_others = ops.concatenate([text_ids[:, s] for s in range(1, texts)])
    absent = ops.tile(ops.equal(weights, 0), [texts - 1])

    own = ops.cast(ops.one_hot(ops.arange(count), count), "bool")  # [N, N]
    same_anchor = _equal(text_ids[:, 0], text_ids[:, 0])
    same_right = _equal(text_ids[:, 1], text_ids[:, 1])
    rest = ops.zeros_like(own)
    own_of_all = ops.concatenate([own, *[rest] * (texts - 2)], 1)  # [N, (S-1) N]
    hidden = ops.concatenate([same_anchor, *[rest] * (texts - 2)], 1)
    for column in range(2):
        hidden = ops.logical_or(hidden, _equal(text_ids[:, column], ids_of_others))
    hidden = ops.logical_or(hidden, absent[None])
    losses, first = _cross_entropy(anchors, others, own_of_all, hidden)
    if both_ways:
        crossed = _equal(text_ids[:, 1], text_ids[:, 0])
        hidden = ops.logical_or(ops.logical_or(same_anchor, same_right), crossed)
        hidden = ops.logical_or(hidden, ops.equal(weights, 0)[None])
        losses = (losses + _cross_entropy(right, anchors, own, hidden)[0]) / 2
    return losses, first


def unit(vectors: Tensor) -> Tensor:
    """Return `e / max(|e|, 1e-12)` over the last axis, float32."""
    vectors = ops.cast(vectors, "float32")
    squares = ops.sum(ops.square(vectors), -1, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squares, _SMALLEST_NORM**2))


def _cross_entropy(
    queries: Tensor, keys: Tensor, own: Tensor, hidden: Tensor
) -> tuple[Tensor, Tensor]:
    """Return `-log softmax(q k^T)` at the own key of each query, and whether it is the largest.

    Args:
        queries: `[N, D]`.
        keys: `[M, D]`.
        own: bool `[N, M]`, one True in each row.
        hidden: bool `[N, M]`, keys that do not count unless they are the own one.
    """
    scores = ops.matmul(queries, ops.transpose(keys))  # [N, M]
    hidden = ops.logical_and(hidden, ops.logical_not(own))
    scores = ops.where(hidden, _HIDDEN, scores)
    of_own = ops.sum(ops.where(own, scores, 0.0), 1)
    first = ops.cast(ops.greater_equal(of_own, ops.max(scores, 1)), "float32")
    return ops.logsumexp(scores, 1) - of_own, first


def _equal(a: Tensor, b: Tensor) -> Tensor:
    return ops.equal(a[:, None], b[None])
