"""The softmax of a tied table in training: whole where logits are small, else in blocks."""

import math

import keras
from keras import ops

from tfnlp.layers import LogitBias, TokenEmbedding
from tfnlp.layers.kernels.cross_entropy import positions_of, vocabulary_loss
from tfnlp.layers.types import Tensor
from tfnlp.objectives.logits import best_class, cross_entropy

# With more logits than _WHOLE the loss is computed some positions at a time, of at most _BLOCK.
_WHOLE, _BLOCK = 3 * 2**26, 2**27


class TiedSoftmax:
    """Loss and hits of `logits = h E^T + b`, without the logits where they are large.

    Args:
        table: layer of E.
        bias: layer of b, or None.
    """

    def __init__(self, table: TokenEmbedding, bias: LogitBias | None = None) -> None:
        self.table, self.bias = table, bias

    def sums(
        self, hidden: Tensor, logits: Tensor, ids: Tensor, weights: Tensor, hits: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return `sum_n w_n (-log p_n)` and `sum_n w_n [id_n is the first best]`, float32 scalars.

        Args:
            hidden: h, `[..., H]`.
            logits: `[..., V]`; a graph that does not read them does not compute them.
            ids: int32 `[...]`.
            weights: w, float32 `[...]`.
            hits: whether the second sum is read.
        """
        words = logits.shape[-1]
        count = None if None in ids.shape else math.prod(ids.shape)
        if count is None or count * words <= _WHOLE:
            return whole_sums(logits, ids, weights)
        h = ops.cast(hidden, self.table.compute_dtype)
        return vocabulary_loss(
            ops.reshape(h, (count, hidden.shape[-1])),
            self.table.embeddings,
            None if self.bias is None else self.bias.bias,
            ops.cast(ops.reshape(ids, (count,)), "int32"),
            ops.reshape(weights, (count,)),
            positions_of(count, words, _BLOCK),
            hits,
        )


def whole_sums(logits: Tensor, ids: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `TiedSoftmax.sums` returns, of the logits."""
    right = ops.cast(best_class(logits) == ids, "float32")
    return ops.sum(cross_entropy(logits, ids) * weights), ops.sum(right * weights)


def masked_softmax(model: keras.Model) -> tuple[TiedSoftmax, keras.Model] | None:
    """Return the softmax of a masked LM, and `model` with the output `mlm_hidden`, its h.

    None for a model without the head of `tfnlp.models.bert_pretrainer`.
    """
    layers = {layer.name: layer for layer in model.layers}
    names = "token_embedding", "masked_lm_bias", "masked_lm_head"
    if not all(name in layers for name in names):
        return None
    table, bias, head = (layers[name] for name in names)
    outputs = {**model.output, "mlm_hidden": head.output}
    return TiedSoftmax(table, bias), keras.Model(model.input, outputs, name=model.name)
