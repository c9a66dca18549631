"""ALBERT's pretraining text: masked pairs of segments, half of them in the wrong order."""

import hashlib
from collections.abc import Iterable
from typing import Any

from tfnlp.families.masked_text import MaskedText, sizes_of_config
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


def _sizes(config: Any, before: Any) -> dict[str, Any]:
    from tfnlp import models
    from tfnlp.convert.albert import ALBERT_FILES
    from tfnlp.convert.encoders.config import config_of
    from tfnlp.families.albert import SIZES

    old = None if before is None else config_of(ALBERT_FILES, before.encoder)
    return sizes_of_config(config, getattr(models, SIZES[config.size]), old)


def _heads(config: Any, before: Any, batches: Any) -> dict[str, Any]:
    """Return the arguments of `albert_pretrainer`."""
    if before is None:
        return {
            "masked_lm": True,
            "sentence_order": True,
            "initializer_range": config.initializer_range,
        }
    head = before.pretrainer.get_layer("masked_lm_head")
    return {
        "activation": head.activation,
        "norm_epsilon": head.norm_epsilon,
        "masked_lm": True,
        "sentence_order": "sentence_order_logits" in before.pretrainer.output,
        "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
    }


ALBERT_TEXT = MaskedText(
    title="ALBERT",
    subwords=SENTENCEPIECE,
    second="swapped",
    sizes=_sizes,
    heads=_heads,
    copied=("masked_lm_head", "masked_lm_bias", "sentence_order_head"),
)
