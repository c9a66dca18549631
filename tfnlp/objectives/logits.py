"""Cross-entropy and the best class of logits, on any backend of Keras."""

import keras
import tensorflow as tf
from keras import ops

from tfnlp.layers.kernels.cross_entropy import cross_entropy_of_rows
from tfnlp.layers.types import Tensor


def cross_entropy(logits: Tensor, ids: Tensor) -> Tensor:
    """Return `-log softmax(z)_id`.

    Args:
        logits: z, float `[..., V]`.
        ids: int `[...]`.

    Returns:
        float32 `[...]`.
    """
    logits = ops.cast(logits, "float32")
    if keras.backend.backend() != "tensorflow":
        flat = ops.reshape(logits, (-1, logits.shape[-1]))  # [N, V]
        flat_ids = ops.cast(ops.reshape(ids, (-1,)), "int32")
        return ops.reshape(cross_entropy_of_rows(flat, flat_ids), ops.shape(ids))
    return ops.sparse_categorical_crossentropy(ids, logits, from_logits=True)


def best_class(logits: Tensor) -> Tensor:
    """Return the first v with the largest `z_v` of logits `[..., V]`, int32 `[...]`."""
    if keras.backend.backend() == "tensorflow":
        # Keras's `argmax` first makes three passes over the logits, to tell -0.0 from 0.0.
        return tf.argmax(logits, axis=-1, output_type="int32")
    if keras.backend.backend() == "jax":
        from tfnlp.jax_forms import first_largest

        return first_largest(logits)
    return ops.argmax(logits, axis=-1)
