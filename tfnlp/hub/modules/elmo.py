"""ELMo as a module from strings to vectors, for export and for use in Python."""

import contextlib
import os
from collections.abc import Callable

import keras
import tensorflow as tf

from tfnlp.hub.modules.word_cache import WordCache
from tfnlp.hub.saving.keras_module import (
    regularization_loss,
    regularization_losses,
    without_seeds,
)
from tfnlp.hub.saving.save import save_module
from tfnlp.hub.untracked import Untracked
from tfnlp.models import elmo_lstm
from tfnlp.text import BEGIN_OF_SENTENCE, END_OF_SENTENCE, character_ids
from tfnlp.training.randomness import layer_seeds, seeded

TRAINABLE = ("mix", "all")


class ElmoModule(tf.__internal__.tracking.AutoTrackable):
    """Module from sentences to contextual vectors, with the interface of `google/elmo/3`.

    `module(inputs, training=False)` takes strings `[B]`, split at spaces (and tabs and line ends),
    or a dict of `tokens`, strings `[B, T]`, and `sequence_len`, int32 `[B]`, clipped to 0..T. It
    returns a dict: `word_emb` `[B, T, P]`, `lstm_outputs1`, `lstm_outputs2` and `elmo`
    `[B, T, 2P]`, all zero at padding, and `default` `[B, 2P]`, the mean of `elmo` over the real
    tokens of a row. A row's values depend on its own tokens only.

    The character network is the slower part of an ELMo. It runs once for each distinct word of a
    batch, over as many characters as the longest word has; words of `cache` are looked up. This
    does not change the vectors.

    Args:
        encoder: from `tfnlp.models.elmo`.
        trainable: "mix": the mixing scalars only (one for the word vectors, one for each LSTM
            layer, and gamma), as in the published module; or "all": all weights, with dropout when
            `training`.
        cache: path of a file of words, one per line, whose vectors are computed in advance; only
            for `trainable="mix"`, because training the character network would change them.
        l2: lambda of `lambda sum_j s_j^2` over the mixing scalars s (Peters et al. 2018, section
            3.4), listed in `regularization_losses` with the losses of the encoder's regularizers.
    """

    def __init__(
        self,
        encoder: keras.Model,
        trainable: str = "mix",
        cache: str | os.PathLike | None = None,
        l2: float = 0.0,
    ) -> None:
        super().__init__()
        if trainable not in TRAINABLE:
            raise ValueError(f"trainable={trainable!r} must be one of {', '.join(TRAINABLE)}")
        if cache is not None and trainable == "all":
            raise ValueError('cache needs trainable="mix": trained characters change all words')
        if not l2 >= 0:
            raise ValueError(f"l2={l2} must be at least 0")
        char_cnn, mix = encoder.get_layer("char_cnn"), encoder.get_layer("scalar_mix")
        self._encoder, self._lstm = Untracked(encoder), Untracked(elmo_lstm(encoder))
        self._char_cnn, self._mix = Untracked(char_cnn), Untracked(mix)
        self._all = trainable == "all"
        self._margin = max(width for width, _ in char_cnn.filters)
        self._state_shape = encoder.get_layer("bilm").state_shape
        self._cache = None
        if cache is not None:
            strings = tf.TensorSpec([None], "string")
            self._cache = WordCache(
                cache,
                tf.function(self._from_characters, input_signature=[strings], autograph=False),
            )
        self.variables = [v.value for v in without_seeds(encoder)]
        if self._cache is not None:
            self.variables.append(self._cache.vectors)
        trained = (encoder if self._all else mix).trainable_variables
        self.trainable_variables = [v.value for v in trained]
        self.regularization_losses = regularization_losses(trained)
        if l2:
            scalars = mix.scalars.value
            self.regularization_losses.append(
                regularization_loss(lambda: l2 * tf.reduce_sum(tf.square(scalars)))
            )
        for training in (False, True):  # trace all calls that a user may make
            for inputs in (_TEXT, _TOKENS):
                self.__call__.get_concrete_function(inputs, training=training)

    @tf.function(autograph=False)
    def __call__(
        self, inputs: tf.Tensor | dict[str, tf.Tensor], training: bool = False
    ) -> dict[str, tf.Tensor]:
        if not isinstance(inputs, dict):
            words = tf.strings.split(inputs)  # ragged [B, (T)]
            inputs = {
                "tokens": words.to_tensor(""),
                "sequence_len": tf.cast(words.row_lengths(), "int32"),
            }
        return self._outputs(inputs["tokens"], inputs["sequence_len"], training and self._all)

    def signatures(self) -> dict[str, Callable]:
        """Return the signatures of the published module, for `tfnlp.hub.save`.

        `serving_default`, which servers call, is `default`.
        """
        of_text = tf.function(lambda text: self(text), autograph=False)
        of_text = of_text.get_concrete_function(_TEXT)
        of_tokens = tf.function(lambda **tokens: self(tokens), autograph=False)
        return {
            "default": of_text,
            "serving_default": of_text,
            "tokens": of_tokens.get_concrete_function(**_TOKENS),
        }

    @tf.function(autograph=False)
    def _outputs(
        self, tokens: tf.Tensor, lengths: tf.Tensor, training: bool
    ) -> dict[str, tf.Tensor]:
        # One graph for strings and tokens; without dropout also for both values of `training`.
        distinct, index, mask = bounded_words(tokens, lengths)
        if self._cache is None:
            vectors = self._from_characters(distinct)  # [N, P]
        else:
            vectors = self._cache.lookup(distinct, self._from_characters)
        inputs = {
            "word_embeddings": tf.gather(vectors, index),
            "word_mask": mask,
            "state": tf.zeros((tf.shape(tokens)[0], *self._state_shape)),
        }
        scope = contextlib.nullcontext()
        if training:
            seed = tf.random.uniform([2], maxval=2**31 - 1, dtype="int32")
            encoder = self._encoder.value
            scope = seeded(encoder, layer_seeds(encoder, seed))
        with scope:
            outputs = dict(self._lstm.value(inputs, training=training))
        del outputs["state"]
        return outputs if self._all else self._mixed(outputs, mask[:, 2:])

    def _mixed(self, outputs: dict[str, tf.Tensor], real: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the same outputs, with `elmo` and `default` mixed from constant layers.

        Otherwise a gradient tape would store the activations of the LSTMs and go back through
        them, for the gradient of four numbers.
        """
        outputs = {name: tf.stop_gradient(x) for name, x in outputs.items()}
        word_emb = outputs["word_emb"]
        layers = [tf.concat([word_emb, word_emb], -1)]
        layers += [outputs[f"lstm_outputs{j}"] for j in range(1, self._mix.value.num_layers)]
        mixed = self._mix.value(layers, mask=real)
        mixed = tf.where(real[:, :, None], mixed, tf.zeros((), mixed.dtype))  # [B, T, 2P]
        count = tf.maximum(tf.reduce_sum(tf.cast(real, "float32"), 1, keepdims=True), 1.0)
        mean = tf.reduce_sum(tf.cast(mixed, "float32"), 1) / count
        return {**outputs, "elmo": mixed, "default": tf.cast(mean, mixed.dtype)}

    def _from_characters(self, words: tf.Tensor) -> tf.Tensor:
        """Return vectors `[N, P]` of strings `[N]`."""
        return self._char_cnn.value(character_ids(words, trim=self._margin))


def bounded_words(tokens: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the words that an ELMo reads of sentences `[B, T]`, each one once.

    These are N distinct strings; their numbers, int32 `[B, T + 2]`, with the words that begin and
    end a sentence; and the mask of real ones, `[B, T + 2]`. Lengths `[B]` are clipped to 0..T.
    """
    time = tf.shape(tokens)[1]
    lengths = tf.clip_by_value(lengths, 0, time)
    places = tf.range(time + 2)[None]  # [1, T + 2]
    mask = places < lengths[:, None] + 2
    # Padding is read as `<S>`: each batch holds that word already.
    words = tf.pad(tokens, [[0, 0], [1, 1]], constant_values=BEGIN_OF_SENTENCE)
    words = tf.where(mask, words, BEGIN_OF_SENTENCE)
    words = tf.where(places == lengths[:, None] + 1, END_OF_SENTENCE, words)  # [B, T + 2]
    distinct, index = tf.unique(tf.reshape(words, [-1]))  # [N]
    return distinct, tf.reshape(index, tf.shape(words)), mask


_TEXT = tf.TensorSpec([None], "string", name="text")
_TOKENS = {
    "tokens": tf.TensorSpec([None, None], "string", name="tokens"),
    "sequence_len": tf.TensorSpec([None], "int32", name="sequence_len"),
}


def export_elmo(
    directory: str | os.PathLike,
    encoder: keras.Model,
    trainable: str = "mix",
    cache: str | os.PathLike | None = None,
    l2: float = 0.0,
    overwrite: bool = False,
) -> str:
    """Write `ElmoModule(encoder, trainable, cache, l2)` as a SavedModel; return its path."""
    return save_module(lambda: ElmoModule(encoder, trainable, cache, l2), directory, overwrite)
