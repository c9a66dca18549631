"""Texts to vectors by their words: a module like the published `nnlm-en-dim128`."""

import os
import shutil
import tempfile
import weakref

import numpy as np
import tensorflow as tf

from tfnlp.hub.saving.save import as_saved, check_free, save
from tfnlp.text.characters import UNKNOWN
from tfnlp.text.words.subwords import subword_rows_in_graph

COMBINERS = ("sqrtn", "mean", "sum")
_MARKS = r"[\p{P}\p{S}]"


class WordVectorsModule(tf.__internal__.tracking.AutoTrackable):
    """Strings `[B]` to vectors float32 `[B, D]`, each made of those of its words.

    A text is split at whitespace; with the word vectors e_1 ... e_n it becomes

        sqrtn   sum_i e_i / sqrt(n)        mean   sum_i e_i / n        sum   sum_i e_i

    and a text without words zeros. The table trains, like those of the published modules:
    `module(texts, training=False)`, `variables`, `trainable_variables`, `regularization_losses`
    (none), and the signature `default`, of `text` to `default`.

    Words that are not in the vocabulary have one of `oov_buckets` more rows of the table, by their
    hash. These start as the vector of `<UNK>` where the vocabulary has that word, else as zeros:
    then such a word counts in n and no more. Where the vectors have subwords, there are no buckets:
    an unseen word is the mean of its n-grams' vectors, which train too, and of one that is too
    short for any the vector is zeros.

    Nothing is done to the words unless asked: "Cats," is then another word than "cats".

    Args:
        vectors: `tfnlp.text.WordVectors`; no word may hold a line end.
        oov_buckets: rows for unseen words, 1 or more.
        combiner: "sqrtn", "mean" or "sum".
        lowercase: lower-case the texts, all of Unicode.
        punctuation: False: take the punctuation and symbols of Unicode out of the texts; a mark
            between spaces is then no word.

    Raises:
        ValueError: for another combiner, no buckets, or a word with a line end in it.
    """

    def __init__(
        self, vectors, oov_buckets=1, combiner="sqrtn", lowercase=False, punctuation=True
    ):
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
        self.regularization_losses = []
        self._rows = _table(vectors.words)
        for training in (False, True):  # every call that a user may make
            self.__call__.get_concrete_function(_TEXT, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs, training=False):
        return self._vectors(inputs)

    def signatures(self):
        """The signature of the published module, for `tfnlp.hub.saving.save`."""

        def default(text):
            return {"default": self.__call__(text)}

        return {"default": tf.function(default, autograph=False).get_concrete_function(_TEXT)}

    @tf.function(input_signature=[tf.TensorSpec([None], "string")], autograph=False)
    def _vectors(self, texts):
        # One graph for `training` and not.
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

    def _of_words(self, words):
        """Vectors of strings `[N]`, `[N, D]`."""
        rows = self._rows.lookup(words)  # -1 for words that are not here
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
    directory,
    vectors,
    oov_buckets=1,
    combiner="sqrtn",
    lowercase=False,
    punctuation=True,
    overwrite=False,
):
    """Writes a `WordVectorsModule` of the same arguments as a SavedModel; returns its path.

    Raises:
        ValueError, OSError: see `WordVectorsModule` and `tfnlp.hub.saving.save`.
    """
    check_free(directory, overwrite)
    with as_saved():
        module = WordVectorsModule(vectors, oov_buckets, combiner, lowercase, punctuation)
        signatures = module.signatures()
    save(module, directory, signatures, overwrite)
    return os.fspath(directory)


def _table(words):
    """A table from words to their numbers, -1 for others; the words travel as an asset."""
    for word in words:
        if "\n" in word or "\r" in word:
            raise ValueError(f"the word {word[:50]!r} holds a line end; rename it")
    folder = tempfile.mkdtemp(prefix="tfnlp_words_")
    path = os.path.join(folder, "words.txt")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("\n".join(words) + "\n")
    with tf.init_scope(), tf.device("CPU:0"):
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                path,
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            default_value=-1,
        )
    weakref.finalize(table, _remove_folder, folder, os.getpid())
    return table


def _remove_folder(folder, owner):
    if os.getpid() == owner:  # a forked child must not delete its parent's file
        shutil.rmtree(folder, ignore_errors=True)
