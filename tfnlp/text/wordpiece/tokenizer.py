"""BERT's WordPiece tokenizer as a part of the TensorFlow graph."""

import functools
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfnlp.text.assets import make_assets
from tfnlp.text.piece_tokenizer import PieceTokenizer
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


class WordPieceTokenizer(PieceTokenizer):
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
        self.lowercase = bool(lowercase)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            tokens.index(token) for token in (PAD, UNK, CLS, SEP, MASK)
        )
        try:
            with tf.init_scope(), tf.device("CPU:0"):
                self._wordpiece = _tokenizer_of(tuple(tokens))
        except RuntimeError as error:
            raise ValueError(
                f"{source} makes no tokenizer ({error}); it needs tokens besides the special ones"
            ) from error
        self._set_pieces(tokens, list(map(_as_text, tokens)), list(map(_continues, tokens)))
        (self.vocabulary_asset,) = make_assets([VOCABULARY_FILE], self.write)

    def write(self, folder: str | os.PathLike) -> None:
        """Write `vocab.txt` into a folder."""
        write_vocabulary(os.path.join(folder, VOCABULARY_FILE), self.vocabulary)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._wordpiece.tokenize(normalize(strings, self.lowercase))


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
