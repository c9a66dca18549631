"""A module from strings to the texts of a collection that are nearest to them."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.hub.modules.sentences import SentenceModule
from tfnlp.hub.saving.save import save_module

_TEXTS = tf.TensorSpec([None], "string", name="inputs")


class SearchModule(tf.__internal__.tracking.AutoTrackable):
    """Module from strings `[B]` to the K texts whose vectors have the largest products with theirs.

    `module(inputs)` returns a dict of `texts`, strings `[B, K]`, the best first; `scores`, float32
    `[B, K]`; and `rows`, int32 `[B, K]`, their numbers in the collection. `serving_default` takes
    `inputs` and returns the same. `module.encoder` is the `SentenceModule`.

    Args:
        model, reader, max_length: as of `SentenceModule`.
        vectors, texts: float32 `[N, D]` of N strings.
        top: K, from 1 to N.
    """

    def __init__(
        self,
        model: keras.Model,
        reader: Any,
        max_length: int,
        vectors: np.ndarray,
        texts: Sequence[str],
        top: int,
    ) -> None:
        super().__init__()
        self.encoder = SentenceModule(model, reader, max_length)
        self._top = top
        self._vectors = tf.Variable(vectors, trainable=False, name="vectors")
        self._texts = tf.Variable(list(texts), trainable=False, name="texts")
        self.variables = [*self.encoder.variables, self._vectors, self._texts]
        self.trainable_variables, self.regularization_losses = [], []
        self.__call__.get_concrete_function(_TEXTS)

    @tf.function(autograph=False)
    def __call__(self, inputs: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        queries = self.encoder(inputs)  # [B, D]
        products = tf.matmul(queries, self._vectors, transpose_b=True)  # [B, N]
        scores, rows = tf.math.top_k(products, self._top)
        return {"texts": tf.gather(self._texts, rows), "scores": scores, "rows": rows}

    def signatures(self) -> dict[str, Callable]:
        """Return strings to texts, scores and rows, for `tfnlp.hub.save`."""
        function = tf.function(lambda inputs: self.__call__(inputs), autograph=False)
        return {"serving_default": function.get_concrete_function(_TEXTS)}


def export_search(
    directory: str | os.PathLike,
    model: keras.Model,
    reader: Any,
    max_length: int,
    vectors: np.ndarray,
    texts: Sequence[str],
    top: int = 5,
    overwrite: bool = False,
) -> str:
    """Write a `SearchModule` with the same arguments as a SavedModel; return its path."""
    return save_module(
        lambda: SearchModule(model, reader, max_length, vectors, texts, top), directory, overwrite
    )
