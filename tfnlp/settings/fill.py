"""Settings of the task fill."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.bert import BertSettings
from tfnlp.settings.options import redefine


@dataclasses.dataclass(kw_only=True)
@redefine(
    text={
        "default": dataclasses.MISSING, "flag": "--train",
        "help": "text to learn from, given like --input of `tfnlp pretrain`",
    },
    valid={"flag": "--dev"},
    start={
        "default": dataclasses.MISSING, "flag": "--model", "help": "a BERT with its masked-LM head",
    },
    held_out={"help": "without --dev: share of --train held out"},
    seq_length={
        "default": None,
        "help": "tokens a training sequence (default: 128, or the model's positions if fewer)",
    },
    epochs=10, learning_rate={
        "default": None, "help": "peak learning rate (default: 1e-4; of models smaller than "
        "12 layers x 768 in proportion more, up to 3e-4)",
    },
    warmup=0.06,
)  # fmt: skip
class FillSettings(BertSettings):
    """Masked words: go on with a BERT's masked language model on your text.

    The numbers are those of Gururangan et al. 2020 ("Don't stop pretraining", appendix): AdamW,
    1e-4 at its peak, a warm-up of 6 %, decay 0.01.
    """

    task: ClassVar[str] = "fill"

    # These follow from the model.
    vocab: ClassVar[str | None] = None
    vocab_size: ClassVar[int] = 8000
    cased: ClassVar[bool] = False
    examples: ClassVar[str | None] = None
    size: ClassVar[str] = "tiny"
    num_layers: ClassVar[int | None] = None
    hidden_size: ClassVar[int | None] = None
    num_heads: ClassVar[int | None] = None
    intermediate_size: ClassVar[int | None] = None
    max_positions: ClassVar[int | None] = None
    initializer_range: ClassVar[float] = 0.02
