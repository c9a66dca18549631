"""ALBERT's SentencePiece tokenizer as a part of the TensorFlow graph."""

import os

import tensorflow as tf

from tfnlp.text.assets import make_assets
from tfnlp.text.piece_tokenizer import PieceTokenizer
from tfnlp.text.sentencepiece.model import MODEL_FILE, SPECIAL_PIECES, read_pieces
from tfnlp.text.tf_text import tf_text

_SPACE = "▁"  # in pieces: a space before them


class SentencePieceTokenizer(PieceTokenizer):
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
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = special = [
            pieces.index(piece) for piece in SPECIAL_PIECES
        ]
        continues = [
            i == self.unk_id or i not in special and not piece.startswith(_SPACE)
            for i, piece in enumerate(pieces)
        ]
        silent = {self.pad_id, self.cls_id, self.sep_id}
        texts = [
            "" if i in silent else piece.replace(_SPACE, " ") for i, piece in enumerate(pieces)
        ]
        texts[self.mask_id] = f" {self.mask_token}"
        self._set_pieces(pieces, texts, continues)
        (self.vocabulary_asset,) = make_assets([MODEL_FILE], self.write)

    def write(self, folder: str | os.PathLike) -> None:
        """Write `spiece.model` into a folder."""
        with open(os.path.join(folder, MODEL_FILE), "wb") as file:
            file.write(self.model)

    def _encode(self, strings: tf.Tensor) -> tf.RaggedTensor:
        # Made in the graph, where its kernel owns the model. That of an eager one is lost when
        # TensorFlow clears its cache of kernels, as `tf.random.set_seed` does.
        made = tf_text.SentencepieceTokenizer(self.model, out_type=tf.int32)
        ids = made.tokenize(clean(strings, self.lowercase))
        return ids.with_row_splits_dtype(tf.int64)


def clean(strings: tf.Tensor, lowercase: bool) -> tf.Tensor:
    """Return strings of any shape as a sentencepiece model of ALBERT gets them."""
    strings = tf.strings.regex_replace(strings, "``|''", '"')
    if lowercase:
        strings = tf_text.normalize_utf8(strings, "NFKD")
        strings = tf.strings.regex_replace(strings, r"\p{Mn}+", "")
        strings = tf.strings.lower(strings, encoding="utf-8")
    return strings
