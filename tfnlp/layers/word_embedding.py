"""Tables of word vectors: of words alone (word2vec), and of words and their n-grams (fastText)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Layer, Shape, Tensor, as_ids, check_positive


@keras.saving.register_keras_serializable(package="tfnlp")
class WordEmbedding(Layer):
    """Row lookup `v(i) = E[i]`, initially uniform in `+-1/(2H)`, as in word2vec.c.

    Unlike `TokenEmbedding` it never reads the whole table, so that the cost of a step depends only
    on the rows that it uses.

    Args:
        vocab_size: rows of the table.
        hidden_size: columns of the table, H.

    Call: `ids` int `[B, T]` to `[B, T, H]` in the compute dtype.
    """

    def __init__(self, vocab_size: int, hidden_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # of ids, which narrow floats would round
        check_positive(vocab_size=vocab_size, hidden_size=hidden_size)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size

    def build(self, input_shape: Shape | None = None) -> None:
        self._make_table(self.vocab_size)

    def _make_table(self, rows: int) -> None:
        reach = 0.5 / self.hidden_size
        uniform = keras.initializers.RandomUniform(-reach, reach)
        self.embeddings = self.add_table(rows, self.hidden_size, uniform)

    def call(self, inputs: Tensor) -> Tensor:
        return ops.cast(look_up(self.embeddings, inputs), self.compute_dtype)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*inputs.shape, self.hidden_size), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="tfnlp")
class SubwordEmbedding(WordEmbedding):
    """`v(w) = (E[w] + sum over n-grams g of w of E[V + h(g)]) / (1 + n-grams of w)`.

    fastText (Bojanowski et al. 2017, section 3.2), where h is a hash below `buckets`; the paper has
    the sum, its code the mean. As in that code, each of the rows of a word gets the whole gradient
    of the word's vector, not its share of it. Initially the rows are uniform in `+-1/(2H)`.

    The n-grams of the words are in a weight that is not trained, see `set_subwords`; before that
    call no word has any.

    Args:
        vocab_size: words V.
        hidden_size: columns of the table, H.
        buckets: rows that n-grams share.
        most_subwords: the largest number of n-grams of a word, G.

    Call: `ids` int `[B, T]` below V to `[B, T, H]` in the compute dtype.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        buckets: int,
        most_subwords: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab_size, hidden_size, **kwargs)
        check_positive(buckets=buckets, most_subwords=most_subwords)
        self.buckets = buckets
        self.most_subwords = most_subwords

    def build(self, input_shape: Shape | None = None) -> None:
        self._make_table(self.vocab_size + self.buckets)
        # [V, G]: rows of the table, -1 where a word has no more n-grams.
        self.subword_rows = self.add_weight(
            name="subword_rows",
            shape=(self.vocab_size, self.most_subwords),
            initializer=keras.initializers.Constant(-1),
            dtype="int32",
            trainable=False,
        )

    def set_subwords(self, rows: np.ndarray, splits: np.ndarray) -> None:
        """Set the n-grams of all words.

        Args:
            rows: int `[M]` below `buckets`, h of the n-grams of all words, one word after the
                other.
            splits: int `[V + 1]`; those of word w, at most `most_subwords`, are
                `rows[splits[w] : splits[w + 1]]`.
        """
        counts = np.diff(splits)
        table = np.full((self.vocab_size, self.most_subwords), -1, "int32")
        table[np.arange(self.most_subwords) < counts[:, None]] = np.add(rows, self.vocab_size)
        self.subword_rows.assign(table)

    def call(self, inputs: Tensor) -> Tensor:
        ids = as_ids(ops.reshape(inputs, (-1,)))  # [N]
        rows = ops.take(self.subword_rows, ids, axis=0)
        rows = ops.concatenate([ops.cast(ids, "int32")[:, None], rows], 1)  # [N, 1 + G]
        # Only TensorFlow has arrays whose size depends on values.
        add_up = sums_of_existing if keras.backend.backend() == "tensorflow" else plain_sums
        sums = add_up(self.embeddings, rows)
        counts = ops.sum(ops.cast(rows >= 0, "float32"), 1, keepdims=True)
        # The value is the mean, the gradient that of the sum.
        vectors = ops.stop_gradient(sums / counts - sums) + sums  # [N, H]
        vectors = ops.reshape(vectors, (*ops.shape(inputs), self.hidden_size))
        return ops.cast(vectors, self.compute_dtype)


def plain_sums(table: Tensor, rows: Tensor) -> Tensor:
    """Return `sum_g E[rows_ng]`, without rows of -1: `[R, H]` and `[N, G]` to `[N, H]`."""
    found = look_up(table, ops.maximum(rows, 0))  # [N, G, H]
    return ops.sum(ops.where((rows >= 0)[..., None], found, 0.0), axis=1)


def sums_of_existing(table: Tensor, rows: Tensor) -> Tensor:
    """Return what `plain_sums` returns, but read only the rows that there are.

    Most words have far fewer n-grams than G.
    """
    owners, places = existing(rows >= 0)
    found = look_up(table, ops.take(ops.reshape(rows, (-1,)), places))  # [M, H]
    return ops.segment_sum(found, owners, num_segments=ops.shape(rows)[0])


def existing(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return where a mask `[N, G]` is true: rows n, rising, and places `n G + g`, int32 `[M]` each.

    Needs a backend whose arrays may have a size that is known only from values.
    """
    rows, columns = (ops.cast(x, "int32") for x in ops.nonzero(mask))
    return rows, rows * mask.shape[1] + columns


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """Return rows of a weight, `[*ids, H]`, without reading the whole weight."""
    return ops.take(table.value, as_ids(ids), axis=0)
