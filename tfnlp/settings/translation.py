"""Settings that encoder-decoders which translate share."""

import dataclasses
from typing import Any, ClassVar

from tfnlp.settings.options import option
from tfnlp.settings.training import OutputSettings, TokenBatchSettings, TrainingSettings
from tfnlp.settings.use import EvaluationSettings, PredictionSettings


@dataclasses.dataclass(kw_only=True)
class PairSettings(OutputSettings):
    """Sentences and their translations."""

    bpe: ClassVar[str] = "gpt2"  # the vocabulary is of bytes, losing nothing
    source: Any = option(
        None, "sentences, one a line; .gz is unpacked", metavar="FILE", group="text"
    )
    target: Any = option(None, "their translations, line by line", metavar="FILE", group="text")
    text: Any = option(
        None, "pairs in place of source and target: rows with the columns source and target",
        flag="--input", metavar="FILE", group="text",
    )  # fmt: skip
    valid_source: Any = option(None, "held-out sources", metavar="FILE", group="text")
    valid_target: Any = option(None, "held-out targets", metavar="FILE", group="text")
    held_out: float = option(
        0.02, "without held-out files: share of the pairs held out", group="text"
    )
    vocab: str | None = option(
        None, "byte pairs of both languages; learnt if absent", metavar="DIR", group="text"
    )
    vocab_size: int = option(8000, "tokens if they are learnt", group="text")
    max_tokens: int = option(
        100, "longer sentences are not trained on", group="text", record="training"
    )


@dataclasses.dataclass(kw_only=True)
class TranslationTraining(TrainingSettings, TokenBatchSettings):
    """What only translation asks of training."""

    label_smoothing: float = option(
        0.1, "share of the target spread over all tokens", group="optimisation", record="training"
    )
    evaluate_batches: int | None = option(
        None, "held-out batches of an evaluation (default: all)", at_least=1, group="checkpoints"
    )
    average: int = option(
        5, "last checkpoints whose mean is used if it is better than the best one; 0: none",
        at_least=0, group="checkpoints",
    )  # fmt: skip

    def check(self) -> None:
        """Check the fields, and that the checkpoints to average are kept."""
        super().check()
        if "keep" in self.given and self.keep < self.average:
            raise ValueError(
                f"`keep` {self.keep} must be at least {self.average}, those that `average` takes"
            )


@dataclasses.dataclass(kw_only=True)
class TranslationEvaluation(EvaluationSettings):
    """BLEU of a text and its translation."""

    of: ClassVar[str] = "a model that translates"
    source: Any = option(help="sentences to translate", metavar="FILE")
    target: Any = option(help="their translations", metavar="FILE")
    batch_size: int = option(32, "sentences at a time", at_least=1)
    beams: int = option(4, "hypotheses kept at a time", at_least=1)
    length_penalty: float = option(0.6, "above 0 it favours long ones")
    report: str | None = option(
        None, "write the translations and a plot of BLEU by length there", metavar="DIR"
    )


@dataclasses.dataclass(kw_only=True)
class TranslationPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of a model that translates."""

    of: ClassVar[str] = "a model that translates"
    beams: int = option(4, "hypotheses kept at a time", at_least=1)
    length_penalty: float = option(0.6, "above 0 it favours long translations")
