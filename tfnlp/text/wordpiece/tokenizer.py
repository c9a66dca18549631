"""BERT's WordPiece tokenizer as a part of the TensorFlow graph."""

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.text.assets import make_assets
from tfnlp.text.packing import merge_words, packing_ids
from tfnlp.text.strings import join_rows
from tfnlp.text.tf_text import tf_text
from tfnlp.text.wordpiece.normalization import MAX_WORD_CHARS, normalize
from tfnlp.text.wordpiece.vocabulary import (
    CLS,
    CONTINUATION,
    MASK,
    PAD,
    SEP,
    UNK,
    check_vocabulary,
    read_vocabulary,
    write_vocabulary,
)

VOCABULARY_FILE = "vocab.txt"
_MAX_UTF8_BYTES = 4
_STRINGS = tf.TensorSpec([None], tf.string)
_PIECES = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
_WORDS = tf.RaggedTensorSpec([None, None, None], tf.int32, ragged_rank=2)
_DENSE = tf.TensorSpec([None, None], tf.int32)


class WordPieceTokenizer(tf.__internal__.tracking.AutoTrackable):
    """Tokenizer of BERT: strings to WordPiece ids and back.

    Equal to `FullTokenizer` of google-research/bert. Hugging Face's tokenizers differ for private
    use and unassigned characters (categories Co and Cn), which are kept here: such a word is [UNK].

    Text is cleaned and split (`tfnlp.text.wordpiece.normalization` says how, and which characters
    newer than Unicode 13 can differ); each word is cut from the left into the longest pieces in the
    vocabulary, those after the first prefixed with `##`. A word that cannot be cut so, or of more
    than 200 characters, becomes one [UNK]. Special tokens written in the text are plain text.

    Works eagerly, in `tf.data` and in a SavedModel, where the methods stay callable and the
    vocabulary travels as an asset; loading one needs `import tensorflow_text`.

    Args:
        vocabulary: path of a vocabulary file (one token per line), or the list of tokens.
        lowercase: lower-case and strip accents, for the uncased models.

    Attributes:
        vocab_size, pad_id, unk_id, cls_id, sep_id, mask_id: Python ints.
        lowercase: as given.
        mask_token: "[MASK]".
        separators: 1, how many [SEP] stand between two segments.
        word_style: "bert", see `tfnlp.text.words.offsets.words_with_offsets`.
        keeps_spaces: False, no token holds the space before a word.
        is_continuation: bool `[vocab_size]`, True for `##` pieces.
        vocabulary_asset: the vocabulary file as a `tf.saved_model.Asset`.

    Raises:
        ValueError, FileNotFoundError: as `read_vocabulary`; also if there is no token that a word
            could be cut into.
    """

    mask_token, separators, word_style, keeps_spaces = MASK, 1, "bert", False

    def __init__(
        self, vocabulary: str | os.PathLike | Sequence[str], lowercase: bool = True
    ) -> None:
        super().__init__()
        source = "vocabulary"
        if isinstance(vocabulary, str | os.PathLike):
            source = f"vocabulary file {os.fspath(vocabulary)}"
            tokens = read_vocabulary(vocabulary)
        else:
            tokens = check_vocabulary(vocabulary, source)
        # A list would be tracked, and wrapped, element by element; an array is left alone.
        self._tokens = np.array([token.encode() for token in tokens], dtype=object)
        self.lowercase = bool(lowercase)
        self.vocab_size = len(tokens)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            tokens.index(token) for token in (PAD, UNK, CLS, SEP, MASK)
        )
        # On the host, where strings are and where tf.data runs.
        with tf.init_scope(), tf.device("CPU:0"):
            self._wordpiece = _make_tokenizer(tokens, source)
            self._token_table = tf.constant(self._tokens)  # [V]
            self._text_table = tf.constant([_as_text(token) for token in tokens])  # [V]
            self.is_continuation = tf.constant([_continues(token) for token in tokens])  # [V]
        (self.vocabulary_asset,) = make_assets(
            [VOCABULARY_FILE],
            lambda folder: write_vocabulary(os.path.join(folder, VOCABULARY_FILE), tokens),
        )
        # Traced here, since a SavedModel accepts only what was traced before, and since a trace
        # needs the object alive: `WordPieceTokenizer(path).tokenize(texts)` would not be.
        self.tokenize.get_concrete_function()
        self.tokenize_words.get_concrete_function()
        for spec in (_PIECES, _WORDS, _DENSE):
            self.detokenize.get_concrete_function(spec)
            self.id_to_token.get_concrete_function(spec)

    @property
    def vocabulary(self) -> list[str]:
        """The tokens in the order of their ids."""
        return [token.decode() for token in self._tokens]

    def write(self, folder: str | os.PathLike) -> None:
        """Write `vocab.txt` into a folder.

        Raises:
            OSError: if it can't be written.
        """
        write_vocabulary(os.path.join(folder, VOCABULARY_FILE), self.vocabulary)

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (pieces)]`."""
        return self._wordpiece.tokenize(normalize(strings, self.lowercase))

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def tokenize_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]` by word, int32 ragged `[B, (words), (pieces)]`."""
        pieces = self._wordpiece.tokenize(normalize(strings, self.lowercase))
        ids = pieces.values  # [N]
        starts = ~tf.gather(self.is_continuation, ids)  # [N], the first piece never continues
        piece_splits = tf.concat([tf.where(starts)[:, 0], tf.size(ids, tf.int64)[None]], 0)
        words_before = tf.concat([[0], tf.cumsum(tf.cast(starts, tf.int64))], 0)  # [N + 1]
        word_splits = tf.gather(words_before, pieces.row_splits)
        return tf.RaggedTensor.from_nested_row_splits(
            ids, [word_splits, piece_splits], validate=False
        )

    @tf.function(autograph=False)
    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
        """Return strings `[B]` of ids `[B, (pieces)]`, `[B, (words), (pieces)]` or `[B, T]`, int32.

        Pieces are joined to words, words by spaces; [PAD], [CLS] and [SEP] are left out. Case,
        accents and the spaces around punctuation are not restored if tokenizing removed them.
        """
        pieces = tf.ragged.map_flat_values(tf.gather, self._text_table, ids)
        if pieces.shape.rank == 3:
            pieces = merge_words(pieces)
        return tf.strings.strip(join_rows(pieces))

    @tf.function(autograph=False)
    def id_to_token(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.RaggedTensor | tf.Tensor:
        """Return the tokens of ids int32 of any shape, strings of the same shape."""
        return tf.ragged.map_flat_values(tf.gather, self._token_table, ids)

    @tf.function(input_signature=[], autograph=False)
    def special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Return size and special ids, int32 scalars, named as in the published preprocessors."""
        return packing_ids(self)


def _make_tokenizer(tokens: list[str], source: str) -> Any:
    try:
        return _tokenizer_of(tuple(tokens))
    except RuntimeError as error:
        raise ValueError(
            f"{source} makes no tokenizer ({error}); it needs tokens besides the special ones"
        ) from error


@functools.lru_cache(maxsize=4)  # a run reads its vocabulary more than once
def _tokenizer_of(tokens: tuple[str, ...]) -> Any:
    return tf_text.FastWordpieceTokenizer(
        tokens,
        suffix_indicator=CONTINUATION,
        max_bytes_per_word=MAX_WORD_CHARS * _MAX_UTF8_BYTES,
        unknown_token=UNK,
        token_out_type=tf.int32,
    )


def _continues(token: str) -> bool:
    return token.startswith(CONTINUATION) and token != CONTINUATION


def _as_text(token: str) -> str:
    """Return what a piece adds to a string: that of a word includes the space before it."""
    if token in (PAD, CLS, SEP):
        return ""
    return token.removeprefix(CONTINUATION) if _continues(token) else f" {token}"
