"""The base of tokenizers that use byte-pair encoding."""

import os
from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from tfnlp.text.assets import make_assets
from tfnlp.text.byte_pairs.files import FILE_NAMES, Merges, Tokens, check_bpe, read_bpe, write_bpe
from tfnlp.text.graph_tokenizer import DENSE, PIECES, GraphTokenizer
from tfnlp.text.strings import join_rows

END_OF_TEXT = "<|endoftext|>"
_ABSENT = "\ufffd"  # stands for ids without a token

Vocabulary = str | os.PathLike | tuple[Sequence[str | None], Sequence[tuple[str, str]]]


class BytePairTokenizer(GraphTokenizer):
    """Base of the tokenizers of GPT and GPT-2, see `tfnlp.text.gpt`.

    A subclass defines `_make`, `_encode` and `_as_text` and sets the class attributes.

    Attributes:
        kind: name of the tokenizer, as `train_bpe` takes it.
        word_style: how texts are cut into the words that the model was trained on, see
            `tfnlp.text.words.offsets.words_with_offsets`.
        keeps_spaces: whether the tokens hold the spaces before words.
    """

    kind: ClassVar[str]
    word_style: ClassVar[str]
    keeps_spaces: ClassVar[bool]

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        if isinstance(vocabulary, str | os.PathLike):
            tokens, merges = read_bpe(vocabulary)
        else:
            tokens, merges = check_bpe(*vocabulary)
        # Lists would be tracked, and wrapped, element by element; functions are left alone.
        self._lists = lambda: (tokens, merges)
        self.vocab_size = len(tokens)
        ends = (tokens.index(end) for end in (END_OF_TEXT, "\n</w>") if end in tokens)
        self.end_id = next(ends, None)
        ends = self._special_ids(tokens)
        # On the host, where strings are and where tf.data runs.
        with tf.init_scope(), tf.device("CPU:0"):
            self._token_table = tf.constant([_ABSENT if t is None else t for t in tokens])  # [V]
            self._text_table = tf.constant(
                [
                    b"" if i in ends else _ABSENT.encode() if t is None else self._as_text(t)
                    for i, t in enumerate(tokens)
                ]
            )  # [V]
            self._make(tokens, merges)
        self.vocabulary_assets = make_assets(
            FILE_NAMES[0], lambda folder: write_bpe(folder, tokens, merges)
        )
        self._trace(PIECES, DENSE)

    @property
    def vocabulary(self) -> Tokens:
        """The tokens in the order of their ids, None where an id has none."""
        return list(self._lists()[0])

    def write(self, folder: str | os.PathLike) -> None:
        """Write `encoder.json` and `vocab.bpe` into a folder."""
        write_bpe(folder, *self._lists())

    @property
    def merges(self) -> Merges:
        """The pairs of symbols to merge, in the order they were learnt."""
        return list(self._lists()[1])

    @tf.function(autograph=False)
    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
        """Return strings `[B]` of ids int32, ragged `[B, (tokens)]` or `[B, T]`.

        Special tokens, such as the one that ends texts, are left out.
        """
        return self._join(tf.ragged.map_flat_values(tf.gather, self._text_table, ids))

    @tf.function(input_signature=[], autograph=False)
    def special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Return size and special ids, int32 scalars; -1 for an end that the vocabulary lacks."""
        end = -1 if self.end_id is None else self.end_id
        return dict(vocab_size=tf.constant(self.vocab_size), end_of_text_id=tf.constant(end))

    def _special_ids(self, tokens: Tokens) -> list[int]:
        """Return the ids that stand for no text."""
        return [] if self.end_id is None else [self.end_id]

    def _make(self, tokens: Tokens, merges: Merges) -> None:
        """Make what `_encode` needs."""
        raise NotImplementedError

    def _as_text(self, token: str) -> bytes:
        """Return the text that a token stands for."""
        raise NotImplementedError

    def _join(self, texts: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
        """Return strings `[B]` of the texts of tokens, `[B, (tokens)]`."""
        return join_rows(texts)


def separate(symbols: tf.Tensor, lengths: tf.Tensor, separator: int) -> tf.Tensor:
    """Return symbols int64 `[n]` of words of `lengths` `[w]` with a separator after each word."""
    words = tf.size(lengths)
    ends = tf.cumsum(lengths + 1) - 1
    size = tf.size(symbols) + words
    is_end = tf.tensor_scatter_nd_update(
        tf.zeros(size[None], tf.bool), ends[:, None], tf.fill(words[None], True)
    )
    return tf.tensor_scatter_nd_update(
        tf.fill(size[None], tf.constant(separator, symbols.dtype)), tf.where(~is_end), symbols
    )
