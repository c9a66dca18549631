"""ALBERT's pretraining text: masked pairs of segments, half of them in the wrong order."""

import functools
import hashlib
from collections.abc import Iterable
from typing import Any

from tfnlp.families.encoders import encoder_sizes
from tfnlp.families.masked_text import MaskedText, head_arguments
from tfnlp.families.preparation import SENTENCEPIECE_MODEL
from tfnlp.families.subwords import Subwords


def _read(path: str) -> bytes:
    from tfnlp.text import read_model

    return read_model(path)


def _write(path: str, model: bytes) -> None:
    from tfnlp.text import write_model

    write_model(path, model)


def _learn(texts: Iterable[str], config: Any) -> bytes:
    from tfnlp.text import train_sentencepiece

    return train_sentencepiece(texts, config.vocab_size, lowercase=not config.cased)


def _make(model: bytes, lowercase: bool) -> Any:
    from tfnlp.text import SentencePieceTokenizer

    return SentencePieceTokenizer(model, lowercase)


SENTENCEPIECE = Subwords(
    kind="sentencepiece",
    read=_read,
    write=_write,
    learn=_learn,
    decides=lambda config: [config.vocab_size, config.cased],
    make=_make,
    settings=lambda config: {"lowercase": not config.cased},
    tokens=lambda tokenizer: tokenizer.model,
    key=lambda model: hashlib.sha256(model).hexdigest(),
    name=SENTENCEPIECE_MODEL,
)


def restore_tokenizer(folder: str, lowercase: bool | None) -> Any:
    """Return the SentencePiece tokenizer of a run's folder."""
    return _make(_read(f"{folder}/{SENTENCEPIECE_MODEL}"), lowercase is not False)


def keep_vocabulary(tokenizer: Any, folder: str) -> None:
    """Write the model of a SentencePiece tokenizer into a run's folder."""
    tokenizer.write(folder)


ALBERT_TEXT = MaskedText(
    title="ALBERT",
    subwords=SENTENCEPIECE,
    second="swapped",
    sizes=functools.partial(encoder_sizes, "albert"),
    heads=functools.partial(head_arguments, second="sentence_order"),
    copied=("masked_lm_head", "masked_lm_bias", "sentence_order_head"),
)
