"""SentencePiece as ALBERT has it: its model files, learning one from text, and the tokenizer."""

import io
import itertools
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sentencepiece
import tensorflow as tf

from tfnlp.text.assets import make_assets
from tfnlp.text.base_tokenizers import PieceTokenizer
from tfnlp.text.lines import shown
from tfnlp.text.strings import tf_text

MODEL_FILE = "spiece.model"
PAD, UNK, CLS, SEP, MASK = SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_BATCH = 1000  # sentences that are cleaned at once
_MOST = 2_000_000  # sentences to learn from; of more, a sample is taken
_LONGEST = 4096  # bytes of a sentence to learn from; longer ones are left out
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

    Loading a SavedModel with one needs `import tensorflow_text`.

    Args:
        model: path of a `spiece.model`, or its content.
        lowercase: lower-case and strip accents, as the published models.

    Attributes:
        vocab_size, pad_id, unk_id, cls_id, sep_id, mask_id: Python ints.
        lowercase: as given.
        model: the content of the file.
        mask_token: "[MASK]".
        separators: 1, between two segments.
        word_style: "bert", see `tfnlp.text.words.words_with_offsets`.
        keeps_spaces: False, words are tokenized alone.
        is_continuation: bool `[vocab_size]`, True for pieces without a space before them.
        vocabulary_asset: the file as a `tf.saved_model.Asset`.

    Raises:
        ValueError, FileNotFoundError: as `read_model`.
    """

    mask_token, separators, word_style, keeps_spaces = "[MASK]", 1, "bert", False

    def __init__(
        self, model: str | os.PathLike | bytes, lowercase: bool = True, marks: Sequence[str] = ()
    ) -> None:
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
        self._set_marks(marks, pieces)
        self._set_pieces(pieces, texts, continues)
        (self.vocabulary_asset,) = make_assets([MODEL_FILE], self.write)

    def write(self, folder: str | os.PathLike) -> None:
        """Write `spiece.model` into a folder."""
        write_model(os.path.join(folder, MODEL_FILE), self.model)

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


def train_sentencepiece(texts: Iterable[str], vocab_size: int, lowercase: bool = True) -> bytes:
    """Learn a unigram model, with special pieces as ALBERT's: `<pad>` has id 0, `[MASK]` 4.

    Args:
        texts: strings, read once; they are cleaned as `SentencePieceTokenizer` does it. Those of
            more than 4096 bytes are left out, and of more than two million a sample is taken.
        vocab_size: the largest number of pieces, special ones included.
        lowercase: whether text is lower-cased and stripped of accents.

    Returns:
        The content of the `spiece.model`.

    Raises:
        ValueError: if there is no text, or `vocab_size` is too small for its characters.
    """
    content = io.BytesIO()

    def cleaned() -> Iterator[str]:
        rest = iter(texts)
        while batch := list(itertools.islice(rest, _BATCH)):
            yield from (t.decode() for t in clean(tf.constant(batch), lowercase).numpy())

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=cleaned(),
            model_writer=content,
            model_type="unigram",
            vocab_size=vocab_size,
            hard_vocab_limit=False,  # a small text makes fewer pieces
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            pad_piece=PAD,
            unk_piece=UNK,
            control_symbols=[CLS, SEP, MASK],
            max_sentence_length=_LONGEST,
            input_sentence_size=_MOST,
            shuffle_input_sentence=True,
            num_threads=1,  # more threads add numbers in another order
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        said = " ".join(str(error).split())
        raise ValueError(f"vocab_size={vocab_size} makes no SentencePiece model: {said}") from error
    return content.getvalue()


def read_model(path: str | os.PathLike) -> bytes:
    """Return the content of a `spiece.model`.

    Raises:
        FileNotFoundError: if it does not exist.
        ValueError: if it is no such model, or lacks a special piece.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        raise FileNotFoundError(f"SentencePiece model {name} does not exist")
    with open(name, "rb") as file:
        model = file.read()
    _pieces(model, f"SentencePiece model {name}")
    return model


def write_model(path: str | os.PathLike, model: bytes) -> None:
    """Write the content of a `spiece.model`."""
    with open(path, "wb") as file:
        file.write(model)


def read_pieces(model: str | os.PathLike | bytes) -> tuple[bytes, list[str]]:
    """Return the content of a model, given as that or as its path, and its pieces by id."""
    content = model if isinstance(model, bytes) else read_model(model)
    return content, _pieces(content, "SentencePiece model")


def piece_scores(model: bytes, where: str = "SentencePiece model") -> list[tuple[str, float]]:
    """Return the pieces of a model by id with their log probabilities, 0 for special ones."""
    processor = _processor(model, where)
    return [
        (processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.vocab_size())
    ]


def stored_normalization(model: bytes) -> bytes:
    """Return the table of characters by which a model normalizes text; empty without one."""
    # Read by hand: the module of the library needs a newer protobuf than TensorFlow has.
    return _field(_field(model, 3), 2)  # normalizer_spec, precompiled_charsmap


def _field(message: bytes, number: int) -> bytes:
    """Return the content of the last field of bytes with this number; empty without one."""
    found, at = b"", 0
    while at < len(message):
        tag, at = _varint(message, at)
        size, at = _varint(message, at)  # of bytes; of a number it is the number
        if tag & 7 == 2:
            found = message[at : at + size] if tag >> 3 == number else found
            at += size
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and where it ends."""
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 128:
            return value, at


def _pieces(model: bytes, where: str) -> list[str]:
    try:
        scored = piece_scores(model, where)
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} has a piece that is not UTF-8") from error
    wrong = next((piece for piece, score in scored if not math.isfinite(score)), None)
    if wrong is not None:
        raise ValueError(f"{where} has a score of {shown(wrong)} that is not finite")
    pieces = [piece for piece, _ in scored]
    missing = [piece for piece in SPECIAL_PIECES if piece not in pieces]
    if missing:
        raise ValueError(f"{where} lacks {', '.join(missing)}, which ALBERT needs")
    return pieces


def _processor(model: bytes, where: str) -> Any:
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, OSError) as error:
        raise ValueError(
            f"{where} is no SentencePiece model, or damaged ({' '.join(str(error).split())})"
        ) from error
    if not processor.vocab_size():
        raise ValueError(f"{where} is no SentencePiece model: it has no pieces")
    return processor
