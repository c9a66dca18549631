"""Text embeddings from word vectors: a module like the published `nnlm-en-dim128`."""

import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfnlp.hub.saving.save import save_module
from tfnlp.hub.traced import Traced, named
from tfnlp.text import WordVectors
from tfnlp.text.assets import line_number_table, lines_asset
from tfnlp.text.characters import UNKNOWN
from tfnlp.text.subwords import subword_rows_in_graph

COMBINERS = ("sqrtn", "mean", "sum")
_MARKS = r"[\p{P}\p{S}]"


class WordVectorsModule(Traced):
    """Module from strings `[B]` to vectors float32 `[B, D]`, combined from word vectors.

    A text is split at whitespace; with the word vectors e_1 ... e_n its vector is

        sqrtn   sum_i e_i / sqrt(n)        mean   sum_i e_i / n        sum   sum_i e_i

    and zeros for a text without words. The table is trainable, as in the published modules. The
    module has `module(texts, training=False)`, `variables`, `trainable_variables`,
    `regularization_losses` (none), and the signatures `default` and `serving_default`, from `text`
    to `default`.

    A word that is not in the vocabulary has one of `oov_buckets` additional rows of the table, by
    its hash. These start as the vector of `<UNK>` if the vocabulary has that word, else as zeros;
    such a word still counts in n. If the vectors have subwords, there are no buckets: an unseen
    word is the mean of its n-grams' vectors, which are trainable too; a word that is too short for
    any n-gram is zeros.

    By default words are not normalized: "Cats," and "cats" are different words.

    Args:
        vectors: `tfnlp.text.WordVectors`; no word may hold a line end.
        oov_buckets: rows for unseen words, 1 or more.
        combiner: "sqrtn", "mean" or "sum".
        lowercase: lower-case the texts, all of Unicode.
        punctuation: False: remove the punctuation and symbols of Unicode from the texts; a mark
            between spaces is then not a word.
    """

    kind = "word vectors"  # what the module states of itself

    def __init__(
        self,
        vectors: WordVectors,
        oov_buckets: int = 1,
        combiner: str = "sqrtn",
        lowercase: bool = False,
        punctuation: bool = True,
    ) -> None:
        super().__init__()
        if combiner not in COMBINERS:
            raise ValueError(f"combiner={combiner!r} must be one of {', '.join(COMBINERS)}")
        if oov_buckets < 1:
            raise ValueError(f"oov_buckets={oov_buckets} must be at least 1")
        self._combiner, self._lowercase, self._punctuation = combiner, lowercase, punctuation
        self._count, self._buckets = len(vectors.words), oov_buckets
        self._sizes = None
        table = vectors.vectors
        if vectors.subwords is None:
            unknown = np.zeros(vectors.size, np.float32)
            if UNKNOWN in vectors:
                unknown = vectors.vector(UNKNOWN)
            table = np.concatenate([table, np.tile(unknown, [oov_buckets, 1])])
        self.embeddings = tf.Variable(table, name="embeddings")
        self.variables = [self.embeddings]
        if vectors.subwords is not None:
            subwords = vectors.subwords
            self._sizes = (subwords.min_n, subwords.max_n, subwords.buckets)
            self.subword_embeddings = tf.Variable(subwords.table, name="subword_embeddings")
            self.variables.append(self.subword_embeddings)
        self.trainable_variables = list(self.variables)
        for word in vectors.words:
            if "\n" in word or "\r" in word:
                raise ValueError(f"the word {word[:50]!r} holds a line end; rename it")
        self.words_asset = lines_asset("words.txt", vectors.words)
        self._rows = line_number_table(self.words_asset)  # -1 for unseen words
        for training in (False, True):  # trace all calls that a user may make
            self.__call__.get_concrete_function(_TEXT, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self._vectors(inputs)

    def signatures(self) -> dict[str, Callable]:
        """Return the signature of the published module, also as that which servers call."""
        function = named(lambda text: {"default": self(text)}, text=_TEXT)
        return {"default": function, "serving_default": function}

    @tf.function(input_signature=[tf.TensorSpec([None], "string")], autograph=False)
    def _vectors(self, texts: tf.Tensor) -> tf.Tensor:
        # One graph for both values of `training`.
        if self._lowercase:
            texts = tf.strings.lower(texts, encoding="utf-8")
        if not self._punctuation:
            texts = tf.strings.regex_replace(texts, _MARKS, "")
        words = tf.strings.split(texts)  # ragged [B, (T)]
        found = self._of_words(words.values)  # [N, D]
        sums = tf.math.unsorted_segment_sum(found, words.value_rowids(), words.nrows())  # [B, D]
        if self._combiner == "sum":
            return sums
        counts = tf.cast(tf.maximum(words.row_lengths(), 1), "float32")[:, tf.newaxis]
        return sums / (tf.sqrt(counts) if self._combiner == "sqrtn" else counts)

    def _of_words(self, words: tf.Tensor) -> tf.Tensor:
        """Return vectors `[N, D]` of strings `[N]`."""
        rows = self._rows.lookup(words)  # [N], -1 for unseen words
        if self._sizes is None:
            others = self._count + tf.strings.to_hash_bucket_fast(words, self._buckets)
            return tf.gather(self.embeddings, tf.where(rows < 0, others, rows))
        seen = tf.gather(self.embeddings, tf.maximum(rows, 0))
        places = tf.where(rows < 0)  # [M, 1]
        distinct, index = tf.unique(tf.gather_nd(words, places))  # [U]
        ngrams, owner = subword_rows_in_graph(distinct, *self._sizes)
        means = tf.math.unsorted_segment_mean(
            tf.gather(self.subword_embeddings, ngrams), owner, tf.size(distinct)
        )  # [U, D]
        return tf.tensor_scatter_nd_update(seen, places, tf.gather(means, index))


_TEXT = tf.TensorSpec([None], "string", name="text")


def export_word_vectors(
    directory: str | os.PathLike,
    vectors: WordVectors,
    oov_buckets: int = 1,
    combiner: str = "sqrtn",
    lowercase: bool = False,
    punctuation: bool = True,
    overwrite: bool = False,
) -> str:
    """Write a `WordVectorsModule` with the same arguments as a SavedModel; return its path."""
    return save_module(
        lambda _: WordVectorsModule(vectors, oov_buckets, combiner, lowercase, punctuation),
        directory,
        overwrite,
    )
