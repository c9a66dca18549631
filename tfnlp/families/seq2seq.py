"""Recurrent encoder-decoders (Sutskever et al. 2014, Bahdanau et al. 2015) as a family."""

import dataclasses
from typing import Any

from tfnlp.configs import option, redefine
from tfnlp.families import translation
from tfnlp.families.config import MOST_LAYERS
from tfnlp.families.preparation import Preparation

_NO_ATTENTION = "none"


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=20, batch_size=64, learning_rate=3e-3, warmup=0.02, schedule="linear",
    optimizer="adam", weight_decay=0.0, clip_norm=1.0,
)  # fmt: skip
class Seq2SeqConfig(translation.TranslationTraining, translation.PairConfig):
    """The next token of a translation, with attention or without."""

    attention: str = option(
        "general",
        "how a state of the decoder is compared with those of the encoder; none: the encoder's "
        "last state is all that the decoder gets",
        choices=("additive", "dot", "general", "cosine", _NO_ATTENTION), group="model",
    )  # fmt: skip
    input_feeding: bool = option(
        False, "the decoder also reads what it attended to in the step before", group="model"
    )
    num_layers: int = option(
        1, "of encoder and decoder each", at_least=1, at_most=MOST_LAYERS, group="model"
    )
    hidden_size: int = option(256, "cells a layer", at_least=1, group="model")
    embedding_size: int | None = option(
        None, "of a token (default: as the hidden size)", at_least=1, group="model"
    )
    dropout: float = option(0.2, "rate while training", at_least=0, below=1, group="model")


def prepare(config: Seq2SeqConfig, before: Any, strategy: Any) -> Preparation:
    """Return what the training of a recurrent encoder-decoder needs."""
    attention = None if config.attention == _NO_ATTENTION else config.attention
    if config.input_feeding and attention is None:
        raise ValueError("`input_feeding` needs `attention`; without it there is nothing to feed")
    sizes = {
        "num_layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "embedding_size": config.embedding_size or config.hidden_size,
        "attention": attention,
        "input_feeding": config.input_feeding,
        "dropout": config.dropout,
    }
    return translation.prepare(config, sizes, strategy)


SEQ2SEQ = translation.translation_family(
    "seq2seq",
    "Seq2SeqDecoder",
    title="a seq2seq model",
    summary="Train a recurrent encoder-decoder to translate, with attention or without.",
    config=Seq2SeqConfig,
    sizes={},
    prepare=prepare,
)
