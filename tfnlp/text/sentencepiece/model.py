"""Models of the sentencepiece library: the file, its pieces, and learning one from text."""

import io
import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any

from tfnlp.text.sentencepiece.proto import model_proto

MODEL_FILE = "spiece.model"
PAD, UNK, CLS, SEP, MASK = SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_BATCH = 1000  # sentences that are cleaned at once
_MOST = 2_000_000  # sentences to learn from; of more, a sample is taken
_LONGEST = 4096  # bytes of a sentence to learn from; longer ones are left out


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


def piece_scores(model: bytes) -> list[tuple[str, float]]:
    """Return the pieces of a model by id with their log probabilities, 0 for special ones."""
    processor = _processor(model, "SentencePiece model")
    return [
        (processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.vocab_size())
    ]


def stored_normalization(model: bytes) -> bytes:
    """Return the table of characters by which a model normalizes text; empty without one."""
    return model_proto(model).normalizer_spec.precompiled_charsmap


def make_model(scores: list[tuple[str, float]], normalization: bytes) -> bytes:
    """Return the content of a model with pieces as `piece_scores` returns them.

    The special ones are among them. `normalization` is the table of `stored_normalization`.
    """
    proto = model_proto()
    kinds = {PAD: 3, UNK: 2, CLS: 3, SEP: 3, MASK: 3}  # 3: control, 2: unknown, 1: normal
    for piece, score in scores:
        proto.pieces.add(piece=piece, score=score, type=kinds.get(piece, 1))
    ids = [piece for piece, _ in scores]
    proto.trainer_spec.model_type = 1  # unigram
    proto.trainer_spec.pad_id, proto.trainer_spec.unk_id = ids.index(PAD), ids.index(UNK)
    proto.trainer_spec.bos_id = proto.trainer_spec.eos_id = -1
    proto.trainer_spec.pad_piece, proto.trainer_spec.unk_piece = PAD, UNK
    proto.normalizer_spec.precompiled_charsmap = normalization
    return proto.SerializeToString(deterministic=True)


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
    import sentencepiece
    import tensorflow as tf

    from tfnlp.text.sentencepiece.tokenizer import clean

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


def _pieces(model: bytes, where: str) -> list[str]:
    processor = _processor(model, where)
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    missing = [piece for piece in SPECIAL_PIECES if piece not in pieces]
    if missing:
        raise ValueError(f"{where} lacks {', '.join(missing)}, which ALBERT needs")
    return pieces


def _processor(model: bytes, where: str) -> Any:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, OSError) as error:
        raise ValueError(f"{where} is no SentencePiece model, or damaged ({error})") from error
    if not processor.vocab_size():
        raise ValueError(f"{where} is no SentencePiece model: it has no pieces")
    return processor
