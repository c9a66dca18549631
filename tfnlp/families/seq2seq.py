"""Recurrent encoder-decoders (Sutskever et al. 2014, Bahdanau et al. 2015) as a family."""

from typing import Any

from tfnlp import models
from tfnlp.families.translator import Translator
from tfnlp.settings.translation import NO_ATTENTION, Seq2SeqSettings


class Seq2Seq(Translator):
    """The next token of a translation, with attention or without."""

    name, title = "seq2seq", "a seq2seq model"
    encoder, decoder = staticmethod(models.seq2seq), models.Seq2SeqDecoder

    def model_sizes(self, settings: Seq2SeqSettings) -> dict[str, Any]:
        """Return the sizes that are asked for."""
        attention = None if settings.attention == NO_ATTENTION else settings.attention
        if settings.input_feeding and attention is None:
            raise ValueError(
                "`input_feeding` needs `attention`; without it there is nothing to feed"
            )
        return {
            "num_layers": settings.num_layers,
            "hidden_size": settings.hidden_size,
            "embedding_size": settings.embedding_size or settings.hidden_size,
            "attention": attention,
            "input_feeding": settings.input_feeding,
            "dropout": settings.dropout,
        }
