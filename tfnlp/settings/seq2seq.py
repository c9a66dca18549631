"""Settings of recurrent encoder-decoders."""

import dataclasses

from tfnlp.settings.options import option, redefine
from tfnlp.settings.sizes import MOST_LAYERS
from tfnlp.settings.translation import PairSettings, TranslationTraining

NO_ATTENTION = "none"


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=20, batch_size=64, learning_rate=3e-3, warmup=0.02, schedule="linear",
    optimizer="adam", weight_decay=0.0, clip_norm=1.0,
)  # fmt: skip
class Seq2SeqSettings(TranslationTraining, PairSettings):
    """The next token of a translation, with attention or without."""

    attention: str = option(
        "general",
        "how a state of the decoder is compared with those of the encoder; none: the encoder's "
        "last state is all that the decoder gets",
        choices=("additive", "dot", "general", "cosine", NO_ATTENTION), group="model",
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
