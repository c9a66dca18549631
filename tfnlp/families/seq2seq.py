"""Recurrent encoder-decoders (Sutskever et al. 2014, Bahdanau et al. 2015) as a family."""

from typing import Any

from tfnlp.families import translation
from tfnlp.families.preparation import Preparation
from tfnlp.settings.seq2seq import NO_ATTENTION, Seq2SeqSettings


def prepare(config: Seq2SeqSettings, before: Any, strategy: Any) -> Preparation:
    """Return what the training of a recurrent encoder-decoder needs."""
    attention = None if config.attention == NO_ATTENTION else config.attention
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
    config=Seq2SeqSettings,
    sizes={},
    prepare=prepare,
)
