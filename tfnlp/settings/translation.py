"""Settings of encoder-decoders, which translate."""

from typing import Any, ClassVar

from tfnlp.settings.options import option
from tfnlp.settings.training import (
    MOST_LAYERS,
    OutputSettings,
    SizeSettings,
    TokenBatchSettings,
    TrainingSettings,
)
from tfnlp.settings.use import EvaluationSettings, PredictionSettings

NO_ATTENTION = "none"


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


class Seq2SeqSettings(
    TranslationTraining, PairSettings,
    epochs=20, batch_size=64, learning_rate=3e-3, warmup=0.02, schedule="linear",
    optimizer="adam", weight_decay=0.0, clip_norm=1.0,
):  # fmt: skip
    """Train a recurrent encoder-decoder to translate, with attention or without."""

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


class TransformerSettings(
    TranslationTraining, SizeSettings, PairSettings,
    epochs=20, batch_size=128, learning_rate=1e-3, warmup=0.1, schedule="inverse_sqrt",
    optimizer="adam", weight_decay=0.0, clip_norm=0.0,
):  # fmt: skip
    """Train a Transformer to translate."""

    size: str = option(
        "mini", "of the paper, or mini: 3 + 3 layers x 256, for a CPU",
        choices=("mini", "base", "big"), group="model",
    )  # fmt: skip
    norm_first: bool = option(False, "layer norms before the sub-layers, not after", group="model")


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


class TranslationPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of a model that translates."""

    of: ClassVar[str] = "a model that translates"
    beams: int = option(4, "hypotheses kept at a time", at_least=1)
    length_penalty: float = option(0.6, "above 0 it favours long translations")
