"""Settings of a GPT."""

from typing import ClassVar

from tfnlp.settings.options import option
from tfnlp.settings.text import (
    ExamplesSettings,
    MeasuredTextSettings,
    PackSettings,
    SubwordTextSettings,
)
from tfnlp.settings.training import PositionSettings, StartSettings, TrainingSettings
from tfnlp.settings.use import PredictionSettings

_BPE = "if the vocabulary is built: of bytes, losing nothing (gpt2), or of lower-cased words"


class GPTSettings(
    TrainingSettings, PositionSettings, StartSettings, PackSettings, SubwordTextSettings,
    batch_size=32, learning_rate=1e-3, warmup=0.05, schedule="cosine", optimizer="adamw",
    weight_decay=0.01, clip_norm=1.0,
):  # fmt: skip
    """Pretrain a GPT: the next token.

    The defaults are for small models on one machine. The paper (4.1): Adam, 2.5e-4 at its peak,
    2,000 steps of warm-up, batches of 64 x 512. Its code corrects the bias of the moments, as
    `adamw` does.
    """

    bpe: str = option("gpt2", f"{_BPE} (gpt)", choices=("gpt2", "gpt"), group="text")
    size: str = option(
        "mini", "published size, or mini: 4 layers x 256, for a CPU",
        choices=("mini", "gpt", "gpt2-small", "gpt2-medium", "gpt2-large", "gpt2-xl"),
        group="model",
    )  # fmt: skip


class GPTExamplesSettings(ExamplesSettings):
    """Windows of text."""

    bpe: str = option("gpt2", _BPE, choices=("gpt2", "gpt"), group="text")


class GPTEvaluation(MeasuredTextSettings):
    """The perplexity of a text."""

    of: ClassVar[str] = "a GPT"
    batch_size: int = option(16, "rows at a time", at_least=1)
    seq_length: int | None = option(None, "tokens a sequence (default: as in training)", at_least=1)
    stride: int | None = option(
        None, "tokens from a window to the next (default: half a window)", at_least=1
    )


class GPTPrediction(PredictionSettings):
    """Arguments of `tfnlp predict` of a GPT, which continues texts."""

    of: ClassVar[str] = "a GPT"
    bf16_policy: ClassVar[str] = "bfloat16"  # of weights, too: writing waits for their memory
    max_new_tokens: int = option(100, "tokens to add at most", at_least=1)
    temperature: float = option(0.8, "0: always the most probable token")
    top_k: int = option(0, "draw from so many tokens; 0: all")
    top_p: float = option(0.95, "draw from the fewest with this probability")
    beams: int | None = option(None, "search with so many beams in place of drawing", at_least=1)
    length_penalty: float = option(
        0.0, "of beams: divide log p by their length to this power; above 0 it favours long ones"
    )
    samples: int = option(1, "continuations a prompt; of beams the best", at_least=1)
    stop: list[str] = option([], "end a text before this string", metavar="STRING")
    repetition_penalty: float = option(
        1.0, "above 1 tokens that were there come more rarely, 1: as often", above=0
    )
    no_repeat_ngram: int = option(0, "repeat no so many tokens in a row; 0: any", at_least=0)
    min_new_tokens: int = option(0, "tokens to add at least", at_least=0)
    seed: int = option(0, "of the first continuation")
