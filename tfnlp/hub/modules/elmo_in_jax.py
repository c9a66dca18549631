"""The vectors of an ELMo for sentences of words, where Keras runs on JAX."""

from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
import tensorflow as tf

from tfnlp.hub.modules.elmo import bounded_words
from tfnlp.models import elmo_lstm
from tfnlp.text import character_ids
from tfnlp.training.prediction import forward

_WORDS, _TIME = 512, 16  # the numbers of words and steps are rounded up to multiples of these


class ElmoInJax:
    """What `ElmoModule(encoder)` returns of `{"tokens": ..., "sequence_len": ...}`, as tensors.

    Shapes are rounded up, because each one is compiled.
    """

    def __init__(self, encoder: keras.Model) -> None:
        lstm = elmo_lstm(encoder)
        self._state_shape = encoder.get_layer("bilm").state_shape
        self.variables = [v.value for v in encoder.variables]
        names = [name for name in lstm.output if name != "state"]
        self._layers = forward(lstm, names)
        self._vectors = _compiled(encoder.get_layer("char_cnn"))

    def __call__(self, inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
        """Return the outputs of a batch of sentences: strings `[B, T]` and lengths `[B]`."""
        tokens, lengths = tf.convert_to_tensor(inputs["tokens"]), inputs["sequence_len"]
        batch, time = tokens.shape
        rows, more = 2 ** max(0, batch - 1).bit_length() - batch, -time % _TIME
        tokens = tf.pad(tokens, [[0, rows], [0, more]])
        lengths = tf.pad(tf.cast(lengths, "int32"), [[0, rows]])
        words, index, mask = bounded_words(tokens, lengths)
        characters = character_ids(words).numpy()  # [N, C]
        characters = np.pad(characters, ((0, -len(characters) % _WORDS), (0, 0)))
        outputs = self._layers(
            {
                "word_embeddings": self._vectors(characters)[index.numpy()],  # [B, T + 2, P]
                "word_mask": mask.numpy(),
                "state": np.zeros((batch + rows, *self._state_shape), "float32"),
            }
        )
        return {name: tf.constant(x[:batch, :time]) for name, x in outputs.items() if x.ndim == 3}


def _compiled(layer: keras.layers.Layer) -> Callable[[np.ndarray], np.ndarray]:
    @jax.jit
    def run(weights: list[Any], others: list[Any], x: jax.Array) -> jax.Array:
        return layer.stateless_call(weights, others, x)[0]

    def call(x: np.ndarray) -> np.ndarray:
        weights = [v.value for v in layer.trainable_variables]
        return np.asarray(run(weights, [v.value for v in layer.non_trainable_variables], x))

    return call
