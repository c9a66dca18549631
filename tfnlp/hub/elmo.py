"""ELMo from strings: the module that is exported, and the fast way to use a model in Python."""

import os

import numpy as np
import tensorflow as tf

from tfnlp.hub.module import Hidden, regularization_loss
from tfnlp.hub.save import save
from tfnlp.models import elmo_lstm
from tfnlp.text import BEGIN_OF_SENTENCE, END_OF_SENTENCE, character_ids
from tfnlp.training.randomness import seed_variables, seeded

TRAINABLE = ("mix", "all")
_CHUNK = 4096  # words whose vectors are computed at once for a cache


class ElmoModule(tf.__internal__.tracking.AutoTrackable):
    """Sentences to contextual vectors, with the interface of `google/elmo/3` and of TF2 modules.

    `module(inputs, training=False)` takes strings `[B]`, split at white space, or a dict of
    `tokens`, strings `[B, T]`, and `sequence_len`, int32 `[B]`. It returns a dict: `word_emb`
    `[B, T, P]`, `lstm_outputs1`, `lstm_outputs2` and `elmo` `[B, T, 2P]`, all zero at padding, and
    `default` `[B, 2P]`, the mean of `elmo` over the real tokens of a row. A row's values depend on
    its own tokens alone.

    The character network is the dearer part of an ELMo. It runs once for each distinct word of a
    batch, over as many characters as the longest of them has; words of `cache` are looked up. None
    of this changes a vector.

    Args:
        encoder: from `tfnlp.models.elmo`.
        trainable: "mix": the mixing scalars (three weights and gamma, for two LSTM layers), as in
            the published module; or "all": all weights, with dropout when `training`.
        cache: path of a file of words, one a line, whose vectors are computed beforehand; only for
            `trainable="mix"`, as they would not follow the training of the characters.

    Raises:
        ValueError: for another `trainable`, or a cache with `trainable="all"`.
    """

    def __init__(self, encoder, trainable="mix", cache=None):
        super().__init__()
        if trainable not in TRAINABLE:
            raise ValueError(f"trainable={trainable!r} must be one of {', '.join(TRAINABLE)}")
        if cache is not None and trainable == "all":
            raise ValueError('cache needs trainable="mix": trained characters change all words')
        lstm = elmo_lstm(encoder)
        self._encoder, self._lstm = Hidden(encoder), Hidden(lstm)
        self._char_cnn = Hidden(encoder.get_layer("char_cnn"))
        self._all = trainable == "all"
        self._margin = max(width for width, _ in encoder.get_layer("char_cnn").filters)
        self._state_shape = encoder.get_layer("bilm").state_shape
        seeds = {id(v) for v in seed_variables(encoder)}
        self.variables = [v.value for v in encoder.variables if id(v) not in seeds]
        trained = encoder if self._all else encoder.get_layer("scalar_mix")
        self.trainable_variables = [v.value for v in trained.trainable_variables]
        self.regularization_losses = [
            regularization_loss(v) for v in trained.trainable_variables if v.regularizer is not None
        ]
        self._table = self._cache = None
        if cache is not None:
            self._fill_cache(os.fspath(cache))
        for training in (False, True):  # every call that a user may make
            for inputs in (_TEXT, _TOKENS):
                self.__call__.get_concrete_function(inputs, training=training)

    @tf.function
    def __call__(self, inputs, training=False):
        if not isinstance(inputs, dict):
            words = tf.strings.split(inputs)  # ragged [B, (T)]
            inputs = {
                "tokens": words.to_tensor(""),
                "sequence_len": tf.cast(words.row_lengths(), "int32"),
            }
        if training and self._all:
            seed = tf.random.uniform([2], maxval=2**31 - 1, dtype="int32")
            with seeded(self._encoder.value, seed):
                return self._outputs(inputs["tokens"], inputs["sequence_len"], training=True)
        return self._outputs(inputs["tokens"], inputs["sequence_len"], training=False)

    def signatures(self):
        """The signatures of the published module, for `tfnlp.hub.save`."""

        def default(text):
            return self.__call__(text)

        def tokens(tokens, sequence_len):
            return self.__call__({"tokens": tokens, "sequence_len": sequence_len})

        return {
            "default": tf.function(default).get_concrete_function(_TEXT),
            "tokens": tf.function(tokens).get_concrete_function(**_TOKENS),
        }

    def _outputs(self, tokens, lengths, training):
        batch, time = tf.shape(tokens)[0], tf.shape(tokens)[1]
        lengths = tf.clip_by_value(lengths, 0, time)
        places = tf.range(time + 2)[None]  # [1, T + 2]
        mask = places < lengths[:, None] + 2
        # Padding is read as `<S>`, which every batch holds anyway.
        words = tf.pad(tokens, [[0, 0], [1, 1]], constant_values=BEGIN_OF_SENTENCE)
        words = tf.where(mask, words, BEGIN_OF_SENTENCE)
        words = tf.where(places == lengths[:, None] + 1, END_OF_SENTENCE, words)  # [B, T + 2]
        distinct, index = tf.unique(tf.reshape(words, [-1]))  # [N]
        vectors = self._word_vectors(distinct)  # [N, P]
        embeddings = tf.gather(vectors, tf.reshape(index, tf.shape(words)))  # [B, T + 2, P]
        inputs = {
            "word_embeddings": embeddings,
            "word_mask": mask,
            "state": tf.zeros((batch, *self._state_shape)),
        }
        outputs = dict(self._lstm.value(inputs, training=training))
        del outputs["state"]
        return outputs

    def _word_vectors(self, words):
        """Vectors of strings `[N]`: from the cache where it has them, else from characters."""
        if self._cache is None:
            return self._from_characters(words)
        rows = self._table.lookup(words)  # [N], -1 for words that the cache has not
        vectors = tf.gather(self._cache, tf.maximum(rows, 0))
        missing = tf.where(rows < 0)  # [M, 1]
        return tf.cond(
            tf.size(missing) > 0,
            lambda: tf.tensor_scatter_nd_update(
                vectors, missing, self._from_characters(tf.gather_nd(words, missing))
            ),
            lambda: vectors,
        )

    def _from_characters(self, words):
        return self._char_cnn.value(character_ids(words, trim=self._margin))

    def _fill_cache(self, path):
        with open(path, encoding="utf-8") as file:
            words = file.read().splitlines()
        vectors = [
            self._from_characters(tf.constant(words[i : i + _CHUNK])).numpy()
            for i in range(0, len(words), _CHUNK)
        ]
        self._cache = tf.Variable(np.concatenate(vectors), trainable=False, name="cache")
        # The file itself becomes an asset of the SavedModel.
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                path,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            default_value=-1,
        )


_TEXT = tf.TensorSpec([None], "string", name="text")
_TOKENS = {
    "tokens": tf.TensorSpec([None, None], "string", name="tokens"),
    "sequence_len": tf.TensorSpec([None], "int32", name="sequence_len"),
}


def export_elmo(directory, encoder, trainable="mix", cache=None, overwrite=False):
    """Writes `ElmoModule(encoder, trainable, cache)` as a SavedModel; returns its path.

    Raises:
        ValueError, OSError: see `ElmoModule` and `tfnlp.hub.save`.
    """
    module = ElmoModule(encoder, trainable, cache)
    save(module, directory, module.signatures(), overwrite)
    return os.fspath(directory)
