"""ALBERT's SentencePiece tokenizer as a part of the TensorFlow graph."""

import os

import numpy as np
import tensorflow as tf

from tfnlp.text.assets import make_assets
from tfnlp.text.packing import merge_words
from tfnlp.text.sentencepiece.model import MODEL_FILE, SPECIAL_PIECES, read_pieces
from tfnlp.text.strings import join_rows
from tfnlp.text.tf_text import tf_text

_SPACE = "▁"  # in pieces: a space before them
_STRINGS = tf.TensorSpec([None], tf.string)
_PIECES = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)
_WORDS = tf.RaggedTensorSpec([None, None, None], tf.int32, ragged_rank=2)
_DENSE = tf.TensorSpec([None, None], tf.int32)


class SentencePieceTokenizer(tf.__internal__.tracking.AutoTrackable):
    """Tokenizer of ALBERT: strings to the pieces of a sentencepiece model and back.

    Text is cleaned as in Hugging Face's `AlbertTokenizer`: `` and '' become "; with `lowercase` it
    is decomposed (NFKD), stripped of accents (category Mn) and lower-cased; then comes what the
    model itself normalizes, and the most probable pieces are taken. Differences: Greek sigma at the
    end of a word is lower-cased to its final form, and characters of Unicode versions that only one
    of the libraries knows can be decomposed differently. Google's own code also cuts the comma off
    pieces that end with a digit and a comma; Hugging Face's current one does not, nor does this.
    Special tokens written in a text are plain text.

    Works eagerly, in `tf.data` and in a SavedModel, where the methods stay callable and the model
    travels as an asset; loading one needs `import tensorflow_text`.

    Args:
        model: path of a `spiece.model`, or its content.
        lowercase: lower-case and strip accents, as the published models.

    Attributes:
        vocab_size, pad_id, unk_id, cls_id, sep_id, mask_id: Python ints.
        lowercase: as given.
        model: the content of the file.
        mask_token: "[MASK]".
        separators: 1, between two segments.
        word_style: "bert", see `tfnlp.text.words.offsets.words_with_offsets`.
        keeps_spaces: False, words are tokenized alone.
        is_continuation: bool `[vocab_size]`, True for pieces without a space before them.
        vocabulary_asset: the file as a `tf.saved_model.Asset`.

    Raises:
        ValueError, FileNotFoundError: as `read_model`.
    """

    mask_token, separators, word_style, keeps_spaces = "[MASK]", 1, "bert", False

    def __init__(self, model: str | os.PathLike | bytes, lowercase: bool = True) -> None:
        super().__init__()
        self.model, pieces = read_pieces(model)
        self.lowercase = bool(lowercase)
        self.vocab_size = len(pieces)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = special = [
            pieces.index(piece) for piece in SPECIAL_PIECES
        ]
        # An array, since a list would be tracked, and wrapped, element by element.
        self._pieces = np.array([piece.encode() for piece in pieces], dtype=object)
        continues = [
            i == self.unk_id or i not in special and not piece.startswith(_SPACE)
            for i, piece in enumerate(pieces)
        ]
        silent = {self.pad_id, self.cls_id, self.sep_id}
        texts = ["" if i in silent else _as_text(piece) for i, piece in enumerate(pieces)]
        texts[self.mask_id] = f" {self.mask_token}"
        # On the host, where strings are and where tf.data runs.
        with tf.init_scope(), tf.device("CPU:0"):
            self._piece_table = tf.constant(self._pieces)  # [V]
            self._text_table = tf.constant(texts)  # [V]
            self.is_continuation = tf.constant(continues)  # [V]
        (self.vocabulary_asset,) = make_assets([MODEL_FILE], self.write)
        # Traced here, since a SavedModel accepts only what was traced before.
        self.tokenize.get_concrete_function()
        self.tokenize_words.get_concrete_function()
        for spec in (_PIECES, _WORDS, _DENSE):
            self.detokenize.get_concrete_function(spec)
            self.id_to_token.get_concrete_function(spec)

    @property
    def vocabulary(self) -> list[str]:
        """The pieces in the order of their ids."""
        return [piece.decode() for piece in self._pieces]

    def write(self, folder: str | os.PathLike) -> None:
        """Write `spiece.model` into a folder."""
        with open(os.path.join(folder, MODEL_FILE), "wb") as file:
            file.write(self.model)

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def tokenize(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]`, int32 ragged `[B, (pieces)]`."""
        # Made in the graph, where its kernel owns the model. That of an eager one is lost when
        # TensorFlow clears its cache of kernels, as `tf.random.set_seed` does.
        made = tf_text.SentencepieceTokenizer(self.model, out_type=tf.int32)
        ids = made.tokenize(clean(strings, self.lowercase))
        return ids.with_row_splits_dtype(tf.int64)

    @tf.function(input_signature=[_STRINGS], autograph=False)
    def tokenize_words(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of strings `[B]` by word, int32 ragged `[B, (words), (pieces)]`."""
        pieces = self.tokenize(strings)
        ids = pieces.values  # [N]
        size = tf.size(ids, tf.int64)
        begins = tf.scatter_nd(
            pieces.row_splits[:, None], tf.ones_like(pieces.row_splits), [size + 1]
        )[:-1]
        starts = (begins > 0) | ~tf.gather(self.is_continuation, ids)  # [N]
        piece_splits = tf.concat([tf.where(starts)[:, 0], size[None]], 0)
        words_before = tf.concat([[0], tf.cumsum(tf.cast(starts, tf.int64))], 0)  # [N + 1]
        word_splits = tf.gather(words_before, pieces.row_splits)
        return tf.RaggedTensor.from_nested_row_splits(
            ids, [word_splits, piece_splits], validate=False
        )

    @tf.function(autograph=False)
    def detokenize(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
        """Return strings `[B]` of ids `[B, (pieces)]`, `[B, (words), (pieces)]` or `[B, T]`, int32.

        <pad>, [CLS] and [SEP] are left out. What cleaning changed is not restored.
        """
        pieces = tf.ragged.map_flat_values(tf.gather, self._text_table, ids)
        if pieces.shape.rank == 3:
            pieces = merge_words(pieces)
        return tf.strings.strip(join_rows(pieces))

    @tf.function(autograph=False)
    def id_to_token(self, ids: tf.RaggedTensor | tf.Tensor) -> tf.RaggedTensor | tf.Tensor:
        """Return the pieces of ids int32 of any shape, strings of the same shape."""
        return tf.ragged.map_flat_values(tf.gather, self._piece_table, ids)

    @tf.function(input_signature=[], autograph=False)
    def special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """Return size and special ids, int32 scalars, named as in the published preprocessors."""
        return dict(
            vocab_size=tf.constant(self.vocab_size),
            padding_id=tf.constant(self.pad_id),
            start_of_sequence_id=tf.constant(self.cls_id),
            end_of_segment_id=tf.constant(self.sep_id),
            mask_id=tf.constant(self.mask_id),
        )


def clean(strings: tf.Tensor, lowercase: bool) -> tf.Tensor:
    """Return strings of any shape as a sentencepiece model of ALBERT gets them."""
    strings = tf.strings.regex_replace(strings, "``|''", '"')
    if lowercase:
        strings = tf_text.normalize_utf8(strings, "NFKD")
        strings = tf.strings.regex_replace(strings, r"\p{Mn}+", "")
        strings = tf.strings.lower(strings, encoding="utf-8")
    return strings


def _as_text(piece: str) -> str:
    return piece.replace(_SPACE, " ")
