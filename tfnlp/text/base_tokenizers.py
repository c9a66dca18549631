"""What tokenizers share: strings to ids and ids to strings, in the TensorFlow graph.

They work eagerly, in `tf.data` and in a SavedModel, where the methods stay callable and the files
of the vocabulary travel as assets.

`PieceTokenizer` is the base of those that cut words into pieces from a list, WordPiece and
SentencePiece; `BytePairTokenizer` of those of GPT, GPT-2 and RoBERTa.
"""

import functools
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfnlp.text.assets import make_assets
from tfnlp.text.byte_pair_files import FILE_NAMES, Merges, Tokens, check_bpe, read_bpe, write_bpe
from tfnlp.text.packing import merge_words
from tfnlp.text.strings import join_rows

STRINGS = tf.TensorSpec([None], tf.string)
PIECES = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
DENSE = tf.TensorSpec([None, None], tf.int32)
_WORDS = tf.RaggedTensorSpec([None, None, None], tf.int32, ragged_rank=2)
END_OF_TEXT = "<|endoftext|>"
_APART = "\ufdd0\ufdd1"  # noncharacters, which no text has
_ABSENT = "\ufffd"  # stands for ids without a token

Vocabulary = str | os.PathLike | tuple[Sequence[str | None], Sequence[tuple[str, str]]]


class TracedMethod:
    """A method of strings `[B]` in the graph, traced when it is first asked for.

    That is before it is called: a trace needs the object alive, which it no longer is in the call
    of `WordPieceTokenizer(path).tokenize(texts)`. Saving a SavedModel asks for it, too.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._function = tf.function(method, input_signature=[STRINGS], autograph=False)
        functools.update_wrapper(self, method)

    def __get__(self, tokenizer: Any, owner: type | None = None) -> Any:
        if tokenizer is None:
            return self
        function = self._function.__get__(tokenizer, owner)
        function.get_concrete_function()
        return function


class GraphTokenizer(tf.__internal__.tracking.AutoTrackable):
    """Base of the tokenizers.

    A subclass defines `_encode` and calls `_set_marks`, `_set_tables` and `_trace`.

    Attributes:
        marks: tokens that are read as such where a text has them written; all others are text.
    """

    mask_token, _strips = None, True

    def _set_marks(self, marks: Sequence[str], tokens: Sequence[str | None]) -> None:
        """Set `marks`, which are some of the tokens."""
        missing = [mark for mark in marks if not mark or mark not in tokens]
        if missing:
            raise ValueError(f"`marks` {missing[0]}: no token of the vocabulary is so called")
        # A list would be tracked, and wrapped, element by element.
        self._marks = lambda: list(marks)
        ids = {mark: tokens.index(mark) for mark in sorted(marks, key=len, reverse=True)}
        self._mark_ids = lambda: ids

    @property
    def marks(self) -> list[str]:
        """The tokens that are read where a text has them written."""
        return self._marks()

    def _read(
        self, strings: tf.Tensor, encode: Callable[[tf.Tensor], tf.RaggedTensor]
    ) -> tf.RaggedTensor:
        """Return what `encode` makes of strings `[B]`, with the ids of the marks in them.

        The spaces before a mask go with it, where tokens hold spaces.
        """
        marks = self._mark_ids()
        if not marks:
            return encode(strings)
        spaces = r"\s*" if self.keeps_spaces else ""
        others = "|".join(re.escape(m) for m in marks if m != self.mask_token)
        masks = [rf"{spaces}({re.escape(m)})" for m in marks if m == self.mask_token]
        pattern = "|".join([*masks, f"({others})"] if others else masks)
        groups = "".join(rf"\{n}" for n in range(1, len(masks) + bool(others) + 1))
        apart = tf.strings.regex_replace(strings, pattern, _APART + groups + _APART)
        parts = tf.strings.split(apart, _APART)  # [B, (parts)]
        same = parts.values[:, None] == tf.constant(list(marks))  # [P, M]
        is_mark = tf.reduce_any(same, 1)
        which = tf.boolean_mask(tf.argmax(tf.cast(same, tf.int32), 1), is_mark)
        ids = tf.gather(tf.constant(list(marks.values()), tf.int32), which)
        encoded = encode(tf.where(is_mark, "", parts.values))  # [P, (tokens)] or words of them
        if encoded.ragged_rank == 2:  # each mark is a word
            ids = tf.RaggedTensor.from_row_lengths(ids, tf.ones_like(which))
        own = tf.RaggedTensor.from_row_lengths(ids, tf.cast(is_mark, tf.int64))
        both = tf.concat([own, encoded], 1)
        splits = tf.gather(both.row_splits, parts.row_splits)
        return tf.RaggedTensor.from_row_splits(both.values, splits, validate=False)

    def _trace(self, *ids: tf.TypeSpec) -> None:
        """Trace the methods that take ids, for each of these specs.

        A SavedModel accepts only what was traced before.
        """
        for spec in ids:
            self.detokenize.get_concrete_function(spec)
            self.id_to_token.get_concrete_function(spec)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (tokens)]`."""
        raise NotImplementedError

    @TracedMethod
    def tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (tokens)]`."""
        return self._read(strings, self._encode)

    @tf.function(autograph=False)
    def id_to_token(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.RaggedTensor | tf.Tensor:
        """Return the tokens of ids int32 of any shape, strings of the same shape."""
        return tf.ragged.map_flat_values(tf.gather, self._token_table, ids)

    @tf.function(autograph=False)
    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
        """Return strings `[B]` of ids `[B, (tokens)]`, `[B, (words), (tokens)]` or `[B, T]`, int32.

        Padding and the tokens around texts are left out. What cleaning changed is not restored.
        """
        pieces = tf.ragged.map_flat_values(tf.gather, self._text_table, ids)
        if pieces.shape.rank == 3:
            pieces = merge_words(pieces)
        texts = join_rows(pieces)
        return tf.strings.strip(texts) if self._strips else texts

    @tf.function(input_signature=[], autograph=False)
    def special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Return size and special ids, int32 scalars, named as in the published preprocessors.

        Of GPTs size and the end of texts, -1 where the vocabulary has none.
        """
        if getattr(self, "cls_id", -1) < 0:
            ids = {"end_of_text_id": -1 if self.end_id is None else self.end_id}
        else:
            ids = {
                "padding_id": self.pad_id,
                "start_of_sequence_id": self.cls_id,
                "end_of_segment_id": self.sep_id,
                "mask_id": self.mask_id,
            }
        return {n: tf.constant(i) for n, i in {"vocab_size": self.vocab_size, **ids}.items()}

    def _set_tables(self, tokens: Sequence[Any], texts: Sequence[Any]) -> None:
        # On the host, where strings are and where tf.data runs.
        with tf.init_scope(), tf.device("CPU:0"):
            self._token_table, self._text_table = tf.constant(tokens), tf.constant(texts)  # [V]


class PieceTokenizer(GraphTokenizer):
    """Base of `WordPieceTokenizer` and `SentencePieceTokenizer`.

    A subclass defines `_encode` and calls `_set_pieces`.
    """

    def _set_pieces(
        self, pieces: Sequence[str], texts: Sequence[str], continues: Sequence[bool]
    ) -> None:
        """Set the tables of pieces by id, and trace the methods.

        Texts are what pieces add to a string; `continues` is whether one goes on the word before.
        """
        self.vocab_size = len(pieces)
        # A list would be tracked, and wrapped, element by element; an array is left alone.
        self._pieces = np.array([piece.encode() for piece in pieces], dtype=object)
        self._set_tables(self._pieces, texts)
        with tf.init_scope(), tf.device("CPU:0"):
            self.is_continuation = tf.constant(continues)  # [V]
        self._trace(PIECES, _WORDS, DENSE)

    @property
    def vocabulary(self) -> list[str]:
        """The pieces in the order of their ids."""
        return [piece.decode() for piece in self._pieces]

    @TracedMethod
    def tokenize_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]` by word, int32 ragged `[B, (words), (pieces)]`."""
        pieces = self.tokenize(strings)
        ids, splits = pieces.values, pieces.row_splits  # [N], [B + 1]
        size = tf.size(ids, tf.int64)
        begins = tf.scatter_nd(splits[:, None], tf.ones_like(splits), [size + 1])[:-1]
        starts = (begins > 0) | ~tf.gather(self.is_continuation, ids)  # [N]
        piece_splits = tf.concat([tf.where(starts)[:, 0], size[None]], 0)
        words_before = tf.concat([[0], tf.cumsum(tf.cast(starts, tf.int64))], 0)  # [N + 1]
        word_splits = tf.gather(words_before, splits)
        return tf.RaggedTensor.from_nested_row_splits(
            ids, [word_splits, piece_splits], validate=False
        )


class BytePairTokenizer(GraphTokenizer):
    """Base of the tokenizers of GPT, GPT-2 and RoBERTa.

    A subclass defines `_make`, `_encode` and `_as_text` and sets the class attributes.
    """

    kind: ClassVar[str]  # as `train_bpe` takes it
    word_style: ClassVar[str]  # of words that the model was trained on, see `words_with_offsets`
    keeps_spaces: ClassVar[bool]  # whether the tokens hold the spaces before words

    def __init__(self, vocabulary: Vocabulary, marks: Sequence[str] = ()) -> None:
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
        self._set_marks(marks, tokens)
        texts = [
            b"" if i in ends else _ABSENT.encode() if t is None else self._as_text(t)
            for i, t in enumerate(tokens)
        ]
        self._set_tables([_ABSENT if t is None else t for t in tokens], texts)
        with tf.init_scope(), tf.device("CPU:0"):
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

    def _special_ids(self, tokens: Tokens) -> list[int]:
        """Return the ids that stand for no text."""
        return [] if self.end_id is None else [self.end_id]

    def _make(self, tokens: Tokens, merges: Merges) -> None:
        """Make what `_encode` needs."""
        raise NotImplementedError

    def _as_text(self, token: str) -> bytes:
        """Return the text that a token stands for."""
        raise NotImplementedError
