"""Modules from strings to one vector each, and to the texts of a collection nearest to them."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.hub.saving.compact import CompactWeights
from tfnlp.hub.saving.keras_module import KerasModule
from tfnlp.hub.traced import Traced, named

_TEXTS = tf.TensorSpec([None], "string", name="inputs")


class SentenceModule(Traced):
    """Module from strings `[B]` to vectors float32 `[B, D]`, fine-tunable.

    `module(inputs, training=False)` takes strings `[B]`, also as a Python list. The signature
    `serving_default` takes `inputs` and returns `outputs`. Longer texts are cut; padding is as
    long as the longest text of a call, and does not change a vector.

    Args:
        model: from `tfnlp.models.sentence_encoder`.
        reader: of texts, see `tfnlp.text.task_readers`.
        max_length: tokens that are read of a text.
        weights: those of the model, or None.
    """

    kind = "sentences"  # what the module states of itself

    def __init__(
        self,
        model: keras.Model,
        reader: Any,
        max_length: int,
        weights: CompactWeights | None = None,
    ) -> None:
        super().__init__()
        self._encoder = KerasModule(model, weights=weights)
        self._reader, self._length = reader, max_length
        self._names = list(model.input)
        self.variables = self._encoder.variables
        self.trainable_variables = self._encoder.trainable_variables
        self.regularization_losses = self._encoder.regularization_losses
        for training in (False, True):  # trace all calls that a user may make
            self.__call__.get_concrete_function(_TEXTS, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        ids, _, _ = self._reader.read([inputs])
        packed = self._reader.pack(ids, self._length)
        batch = {name: packed[name] for name in self._names}
        return self._encoder(batch, training=training)["sentence_embedding"]

    def signatures(self) -> dict[str, Callable]:
        """Return strings to vectors, for `tfnlp.hub.save`."""
        return {"serving_default": named(lambda inputs: {"outputs": self(inputs)}, inputs=_TEXTS)}


class SearchModule(Traced):
    """Module from strings `[B]` to the K texts whose vectors have the largest products with theirs.

    `module(inputs)` returns a dict of `texts`, strings `[B, K]`, the best first; `scores`, float32
    `[B, K]`; and `rows`, int32 `[B, K]`, their numbers in the collection. `serving_default` takes
    `inputs` and returns the same. `module.encoder` is the `SentenceModule`.

    Args:
        model, reader, max_length: as of `SentenceModule`.
        vectors, texts: float32 `[N, D]` of N strings.
        top: K, from 1 to N.
    """

    kind = "search"  # what the module states of itself

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
        self.__call__.get_concrete_function(_TEXTS)

    @tf.function(autograph=False)
    def __call__(self, inputs: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        queries = self.encoder(inputs)  # [B, D]
        products = tf.matmul(queries, self._vectors, transpose_b=True)  # [B, N]
        scores, rows = tf.math.top_k(products, self._top)
        return {"texts": tf.gather(self._texts, rows), "scores": scores, "rows": rows}

    def signatures(self) -> dict[str, Callable]:
        """Return strings to texts, scores and rows, for `tfnlp.hub.save`."""
        return {"serving_default": named(lambda inputs: self(inputs), inputs=_TEXTS)}
