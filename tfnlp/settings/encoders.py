"""Settings that BERT and the encoders after it share."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.options import option, redefine
from tfnlp.settings.text import MaskedTextSettings, MeasuredTextSettings, PackSettings
from tfnlp.settings.training import PositionSettings, StartSettings, TrainingSettings
from tfnlp.settings.use import PredictionSettings


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=None, steps={"help": "updates (default: 10000, or those of the epochs)"},
    learning_rate=5e-4,
)  # fmt: skip
class EncoderSettings(
    TrainingSettings, PositionSettings, StartSettings, PackSettings, MaskedTextSettings
):
    """The pretraining of BERT and the encoders after it; for small models on one machine."""

    default_steps = 10_000


@dataclasses.dataclass(kw_only=True)
class CasedEncoderSettings(EncoderSettings):
    """The same, of a vocabulary with or without case."""

    cased: bool = option(False, "keep case and accents", group="text")


@dataclasses.dataclass(kw_only=True)
class MaskedEvaluation(MeasuredTextSettings):
    """Losses and accuracies of the pretraining heads on a text."""

    of: ClassVar[str] = "a BERT or a later encoder"
    batch_size: int = option(32, "rows at a time", at_least=1)
    seq_length: int | None = option(None, "tokens a sequence (default: at most 128)", at_least=1)
    batches: int = option(100, "at most so many batches", at_least=1)
    seed: int = option(1, "of pairs and masks")


@dataclasses.dataclass(kw_only=True)
class MaskPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of encoders without a head for pairs of texts."""

    of: ClassVar[str] = "a RoBERTa, an XLM-RoBERTa, a DistilBERT or an MPNet"
    blank_lines: ClassVar[bool] = False
    pair: ClassVar[None] = None
    top: int = option(5, "guesses a mask", at_least=1)


@dataclasses.dataclass(kw_only=True)
class PairPrediction(MaskPrediction):
    """Arguments of `tfnlp predict` of encoders with a head for pairs of texts."""

    of: ClassVar[str] = "a BERT or an ALBERT"
    pair: str | None = option(None, "second text: does it follow the (one) text?")
