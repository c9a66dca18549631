"""Cross-entropy of logits: plain, with label smoothing, and in blocks of positions."""

import math
from collections.abc import Callable

import keras
from keras import ops

from tfnlp.layers import LogitBias, TokenEmbedding
from tfnlp.layers.base import Tensor
from tfnlp.layers.kernels.backend import by_target, forms
from tfnlp.layers.kernels.cross_entropy import cross_entropy_of_rows, positions_of, vocabulary_loss
from tfnlp.optional_tensorflow import tf

# With more logits than _WHOLE the loss is computed some positions at a time, of at most _BLOCK.
_WHOLE, _BLOCK = 3 * 2**26, 2**27


def cross_entropy(logits: Tensor, ids: Tensor) -> Tensor:
    """Return `-log softmax(z)_id`.

    Args:
        logits: z, float `[..., V]`.
        ids: int `[...]`.

    Returns:
        float32 `[...]`.
    """
    return smoothed_cross_entropy(logits, ids, 0.0)


def best_class(logits: Tensor) -> Tensor:
    """Return the first v with the largest `z_v` of logits `[..., V]`, int32 `[...]`."""
    if keras.backend.backend() == "tensorflow":
        # Keras's `argmax` first makes three passes over the logits, to tell -0.0 from 0.0.
        return tf.argmax(logits, axis=-1, output_type="int32")
    if keras.backend.backend() == "jax":
        return forms.first_largest(logits)
    return ops.argmax(logits, axis=-1)


def smoothed_cross_entropy(logits: Tensor, ids: Tensor, epsilon: float = 0.1) -> Tensor:
    """Return `-sum_v q_v log softmax(z)_v`, `q = (1 - epsilon) onehot(id) + epsilon / V`.

    Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4. With
    `log Z = logsumexp(z)` it is `log Z - (1 - epsilon) z_id - epsilon mean(z)`, and its gradient
    `softmax(z) - q`; q itself is never computed. In this form it takes two fifths of the time of
    TensorFlow's own sparse cross-entropy on a CPU, also with epsilon 0.

    Args:
        logits: float `[..., V]`.
        ids: int32 `[...]`.
        epsilon: from 0 (plain cross-entropy) to below 1.

    Returns:
        losses, float32 `[...]`.
    """
    size, shape = ops.shape(logits)[-1], ops.shape(ids)  # of answers V is a text's length
    flat = ops.cast(ops.reshape(logits, (-1, size)), "float32")  # [N, V]
    flat_ids = ops.cast(ops.reshape(ids, (-1,)), "int32")
    if keras.backend.backend() == "tensorflow":
        # XLA fuses the formula; TensorFlow's kernels make a pass for each of its operations.
        losses = by_target(cross_entropy_of_rows, _in_place, flat, flat_ids, epsilon)
    else:
        losses = cross_entropy_of_rows(flat, flat_ids, epsilon)
    return ops.reshape(losses, shape)


def _in_place(z: Tensor, ids: Tensor, epsilon: float) -> Tensor:
    """Return what `cross_entropy_of_rows` returns, with TensorFlow's kernels."""
    size = z.shape[-1]

    @tf.custom_gradient
    def losses(z: Tensor) -> tuple[Tensor, Callable]:
        p = tf.nn.softmax(z)  # the fastest pass over [N, V]; the gradient needs it, too
        # The largest p is at least 1/V, so its logarithm loses no digits.
        log_z = tf.reduce_max(z, -1) - tf.math.log(tf.reduce_max(p, -1))  # [N]
        loss = log_z - (1 - epsilon) * tf.gather(z, ids, batch_dims=1)
        if epsilon:
            loss -= epsilon * tf.reduce_mean(z, -1)

        def gradient(upstream: Tensor) -> Tensor:
            spread = p - epsilon / size if epsilon else p
            places = tf.stack([tf.range(tf.shape(ids)[0]), ids], 1)  # [N, 2]
            return tf.tensor_scatter_nd_sub(
                spread * upstream[:, None], places, (1 - epsilon) * upstream
            )

        return loss, gradient

    return losses(z)


class TiedSoftmax:
    """Loss and hits of `logits = h E^T + b`, in blocks of positions where the logits are large.

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
