"""Coreference: spans of words that are mentions, and for each the mention before it that it names.

Lee et al. 2017 (arXiv 1707.07045), with the coarse scores of Lee et al. 2018 (1804.05392), without
their refinement of spans, which Xu & Choi 2020 found to add nothing above BERT.
"""

import math
from typing import Any

import keras
from keras import ops

from tfnlp.layers import Dropout
from tfnlp.layers.base import Initializer, MaskEnds, Shape, Tensor, check_positive
from tfnlp.layers.heads import at_positions

NEVER = -1e9  # of a span that there is not, and of a pair that can't be
_STEEPEST = 40.0  # largest |score| of a word in a span, so that no softmax over a span is 0 / 0
_DISTANCES = 12  # that are told apart: 1, 2, 3, 4, 5 to 7, 8 to 15, and so on to 512 and more


class Coreference(MaskEnds):
    """Scores of spans as mentions, and of pairs of the best of them.

    A span (i, w) of the words i to i + w has `v = relu(W [x_i; x_(i+w); h] + e_w + b)`, where h is
    the mean of its words with the weights `softmax(a . x)` over the span, and e_w a vector of its
    width: section 3.1 of Lee et al. 2017, but for a projection, which every score reads. Its score
    as a mention is `m = w . relu(F drop(v)) + c`; c begins as the log-odds of a span to stay, since
    few of the many spans are mentions. Of the spans of M words the best `kept M` stay, in the order
    of the text. A pair of them, j before i, has `s_ij = m_i + m_j + v_i C v_j + d_k + p .
    relu(U v_i + V v_j + Y (v_i * v_j) + f_k)`, k the number of spans from j to i, in powers of two
    (sections 3.1 and 4 of Lee et al. 2018). The last term is for the best `antecedents` by the
    others alone; the score of no antecedent is 0.

    Args:
        width: most words of a span.
        units: the size of v, and of hidden layers.
        kept: spans that stay, a share of the words.
        antecedents: spans before each that are compared with it.
        dropout: rate on x and on v.
        kernel_initializer: of the kernels.

    Inputs: float `[N, T, F]`, the tokens of all windows, those of a document one after the other;
    and int32 `positions` `[B, M]`, where the words of documents stand among the tokens of theirs,
    then zeros: no word stands at 0. B M = N T.

    Outputs: a dict of float32 `mention_logits` `[B, M, W]`, of the span of w + 1 words from each,
    -1e9 where there is none; of K kept spans in their order int32 `spans` `[B, K]`, `i W + w`,
    float32 `span_logits` `[B, K]`, their m, -1e9 of one that is not there; int32 `antecedents`
    `[B, K, A]`, which of them each may follow, and float32 `antecedent_logits` `[B, K, A]`, s,
    -1e9 of one that can't be.
    """

    def __init__(
        self,
        width: int,
        units: int = 150,
        kept: float = 0.4,
        antecedents: int = 50,
        dropout: float = 0.3,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(width=width, units=units, antecedents=antecedents)
        if not 0 < kept <= width:
            raise ValueError(f"kept={kept} must be above 0 and at most width={width}")
        self.width, self.units, self.kept, self.antecedents = width, units, kept, antecedents
        self.dropout = dropout
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._drop = {name: Dropout(dropout, name=f"{name}_dropout") for name in ("word", "span")}

    def build(self, x_shape: Shape, positions_shape: Shape) -> None:
        size, units = x_shape[-1], self.units

        def kernel(name: str, *shape: int) -> None:
            weight = self.add_weight(
                name=name, shape=shape, initializer=self.kernel_initializer.clone()
            )
            setattr(self, f"_{name}", weight)

        kernel("attention", size, 1)
        for name in ("first", "last", "inner"):
            kernel(name, size, units)
        kernel("widths", self.width, units)
        kernel("mention_hidden", units, units)
        kernel("mention", units, 1)
        kernel("coarse", units, units)
        kernel("near", _DISTANCES, 1)
        for name in ("span", "antecedent", "product"):
            kernel(name, units, units)
        kernel("distances", _DISTANCES, units)
        kernel("pair", units, 1)
        rare = self.kept / self.width  # at most 1
        self._prior = self.add_weight(
            name="prior",
            shape=(),
            initializer=keras.initializers.Constant(math.log(rare / max(1 - rare, rare))),
        )
        for name in ("span_bias", "mention_bias", "pair_bias"):
            weight = self.add_weight(name=name, shape=(units,), initializer="zeros")
            setattr(self, f"_{name}", weight)

    def compute_output_spec(
        self, x: Tensor, positions: Tensor, training: bool | None = None
    ) -> dict[str, keras.KerasTensor]:
        batch, words = positions.shape
        kept = None if words is None else self._count(words)
        several = None if kept is None else min(self.antecedents, kept)
        shapes = {
            "mention_logits": (batch, words, self.width),
            "spans": (batch, kept),
            "span_logits": (batch, kept),
            "antecedents": (batch, kept, several),
            "antecedent_logits": (batch, kept, several),
        }
        numbers = ("spans", "antecedents")
        return {
            name: keras.KerasTensor(shape, dtype="int32" if name in numbers else "float32")
            for name, shape in shapes.items()
        }

    def _count(self, words: Any) -> Any:
        """Return how many spans of so many words stay."""
        return -(-words * round(1000 * self.kept) // 1000)

    def call(self, x: Tensor, positions: Tensor, training: bool | None = None) -> dict[str, Tensor]:
        real = positions > 0
        x = ops.reshape(x, (-1, ops.shape(positions)[1], x.shape[-1]))
        x = at_positions(x, positions)  # [B, M, F]
        x = self._drop["word"](x, training=training)
        vectors = self._drop["span"](self._vectors(x), training=training)  # [B, M, W, U]
        hidden = ops.relu(ops.matmul(vectors, self._mention_hidden) + self._mention_bias)
        mentions = ops.cast(ops.matmul(hidden, self._mention)[..., 0], "float32")  # [B, M, W]
        mentions = mentions + ops.cast(self._prior, "float32")
        mentions = ops.where(self._later(real[..., None], False)[..., 0], mentions, NEVER)
        spans, scores = self._best(mentions, real)  # [B, K]
        flat = ops.reshape(vectors, (-1, ops.shape(x)[1] * self.width, self.units))
        kept = at_positions(flat, spans)  # [B, K, U]
        antecedents, pairs = self._pairs(kept, scores)
        return {
            "mention_logits": mentions,
            "spans": spans,
            "span_logits": scores,
            "antecedents": antecedents,
            "antecedent_logits": pairs,
        }

    def _later(self, x: Tensor, padding: float | bool) -> Tensor:
        """Return `[B, M, W, ...]` of x `[B, M, ...]`: at w that of the word w after each."""
        count = ops.shape(x)[1]
        more = [[0, 0], [0, self.width - 1]] + [[0, 0]] * (len(x.shape) - 2)
        x = ops.pad(x, more, constant_values=padding)
        return ops.stack([x[:, w : w + count] for w in range(self.width)], axis=2)

    def _vectors(self, x: Tensor) -> Tensor:
        """Return v `[B, M, W, U]` of the words `[B, M, F]`."""
        weights = ops.cast(ops.matmul(x, self._attention), "float32")
        weights = ops.exp(ops.clip(weights, -_STEEPEST, _STEEPEST))  # [B, M, 1]
        inner = weights * ops.cast(ops.matmul(x, self._inner), "float32")
        inner = ops.cumsum(self._later(inner, 0.0), axis=2)
        inner = inner / ops.cumsum(self._later(weights, 1.0), axis=2)
        first = ops.matmul(x, self._first)[:, :, None]
        last = self._later(ops.matmul(x, self._last), 0.0)
        return ops.relu(first + last + ops.cast(inner, x.dtype) + self._widths + self._span_bias)

    def _best(self, mentions: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Return the kept spans in the order of the text, and their scores: `[B, K]` both."""
        count = ops.shape(mentions)[1]
        total = count * self.width
        flat = ops.reshape(mentions, (-1, total))
        scores, spans = ops.top_k(flat, self._count(count))  # the best first
        words = ops.sum(ops.cast(real, "float32"), axis=1, keepdims=True)
        rank = ops.cast(ops.arange(ops.shape(spans)[1]), "float32")[None]
        stays = ops.logical_and(rank < words * self.kept, scores > NEVER / 2)
        # Those that do not stay follow all others.
        order = ops.argsort(ops.where(stays, spans, total), axis=1)
        scores = ops.take_along_axis(ops.where(stays, scores, NEVER), order, axis=1)
        return ops.cast(ops.take_along_axis(spans, order, axis=1), "int32"), scores

    def _pairs(self, v: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best antecedents of kept spans `[B, K, U]` and their scores `[B, K, A]`."""
        count = ops.shape(v)[1]
        places = ops.arange(count, dtype="int32")
        apart = places[:, None] - places[None]  # [K, K]
        coarse = ops.matmul(ops.matmul(v, self._coarse), ops.swapaxes(v, 1, 2))
        coarse = ops.cast(coarse, "float32") + scores[:, :, None] + scores[:, None]
        near = ops.cast(ops.take(self._near[:, 0], _bucket(apart), axis=0), "float32")
        live = scores > NEVER / 2
        can = ops.logical_and(apart[None] > 0, ops.logical_and(live[:, :, None], live[:, None]))
        coarse = ops.where(can, coarse + near, NEVER)
        most = min(self.antecedents, count) if isinstance(count, int) else None
        most = ops.minimum(self.antecedents, count) if most is None else most
        best, antecedents = ops.top_k(coarse, most)  # [B, K, A]
        antecedents = ops.cast(antecedents, "int32")
        distance = _bucket(places[None, :, None] - antecedents)
        both = ops.concatenate([v, ops.matmul(v, self._antecedent)], axis=-1)
        theirs, hidden = ops.split(at_positions(both, antecedents), 2, axis=-1)  # [B, K, A, U] both
        hidden = hidden + ops.matmul(v, self._span)[:, :, None]
        hidden = hidden + ops.matmul(v[:, :, None] * theirs, self._product)
        hidden = hidden + ops.take(self._distances, distance, axis=0) + self._pair_bias
        fine = ops.cast(ops.matmul(ops.relu(hidden), self._pair)[..., 0], "float32")
        return antecedents, ops.where(best > NEVER / 2, best + fine, NEVER)


def _bucket(distance: Tensor) -> Tensor:
    """Return the number of a distance of 1 or more, see `_DISTANCES`."""
    far = ops.cast(ops.maximum(distance, 1), "float32")
    power = ops.floor(ops.log2(far + 0.5)) + 2.0
    found = ops.where(far <= 4, far - 1.0, power)
    return ops.cast(ops.minimum(found, _DISTANCES - 1), "int32")
