"""Operations on batches of strings inside the TensorFlow graph, and TensorFlow Text.

There is no TensorFlow Text for Windows. Packages import without it, and models train.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def apply_where(
    condition: tf.Tensor, function: Callable[[tf.Tensor], tf.Tensor], strings: tf.Tensor
) -> tf.Tensor:
    """Return strings `[B]` with `function` applied to those where bool `[B]` `condition` holds.

    Without `tf.cond`: on no rows the ops cost next to nothing, control flow costs more.
    """
    rows = tf.where(condition)  # [N, 1]
    return tf.tensor_scatter_nd_update(strings, rows, function(tf.gather_nd(strings, rows)))


def drop_invalid(strings: tf.Tensor) -> tf.Tensor:
    """Return the strings without bytes that are not valid UTF-8."""
    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="ignore")


def join_rows(strings: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
    """Return strings `[B]`: the strings of each row of `[B, (pieces)]` or `[B, T]`, joined."""
    if not isinstance(strings, tf.RaggedTensor):
        return tf.strings.reduce_join(strings, axis=1)
    # What `reduce_join` does with ragged tensors, in a third of its operations.
    splits = strings.row_splits
    begins = tf.scatter_nd(
        tf.expand_dims(splits, 1), tf.ones_like(splits), [tf.size(strings.values, splits.dtype) + 1]
    )
    rows = tf.cumsum(begins)[:-1] - 1  # [N], how many rows began before
    return tf.strings.unsorted_segment_join(strings.values, rows, strings.nrows())


class _Missing:
    """Raises an `ImportError` for whatever is asked of it."""

    def __init__(self, cause: ImportError) -> None:
        self.cause = cause

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(
            f"tokenizing in a graph needs {name} of tensorflow-text, which is not installed: pip "
            "install tensorflow-text, of the version of TensorFlow; for Windows there is none"
        ) from self.cause


tf_text: Any
try:
    import tensorflow_text as tf_text
except ImportError as error:
    tf_text = _Missing(error)
