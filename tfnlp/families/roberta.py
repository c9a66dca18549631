"""RoBERTa (Liu et al. 2019) as a family."""

import dataclasses
import functools

from tfnlp.configs import option, redefine
from tfnlp.families import encoders, fitting
from tfnlp.families.config import (
    MaskedTextConfig,
    PackConfig,
    PositionConfig,
    StartConfig,
    TrainingConfig,
)
from tfnlp.families.examples_config import ExamplesConfig
from tfnlp.families.family import Examples
from tfnlp.families.masks import PredictBert, mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.roberta_text import ROBERTA_TEXT, restore_tokenizer

SIZES = {
    name: f"ROBERTA_{name.upper()}" for name in ("tiny", "mini", "small", "medium", "base", "large")
}


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=None,
    steps={"help": "updates (default: 10000, or those of the epochs)"},
    batch_size=32, learning_rate=5e-4, warmup=0.06, schedule="linear",
    optimizer="roberta_adamw", weight_decay=0.01, clip_norm=0.0,
    vocab={"help": "folder of vocab.json and merges.txt; built from the text if absent"},
)  # fmt: skip
class RobertaConfig(TrainingConfig, PositionConfig, StartConfig, PackConfig, MaskedTextConfig):
    """Masked LM on windows of whole sentences; for small models on one machine.

    The paper (sections 3.1 and 5, table 9): batches of 8,192 rows of 512 tokens, 500,000 steps,
    6e-4 (base) or 4e-4 (large) at its peak, 24,000 or 30,000 of them of warm-up, b2 = 0.98,
    epsilon = 1e-6, no clipping.
    """

    default_steps = 10_000
    size: str = option(
        "tiny", "size; base and large are the paper's", choices=tuple(SIZES), group="model"
    )


@dataclasses.dataclass(kw_only=True)
@redefine(vocab={"help": "folder of the vocabulary; built from --input if absent, by one process"})
class RobertaExamplesConfig(ExamplesConfig):
    """Windows of sentences; masks are drawn when they are read."""


@dataclasses.dataclass(kw_only=True)
@redefine(
    text={"help": "sentences with <mask>; none: a sentence a line from stdin"},
    pair={"hidden": True},
)
class PredictRoberta(PredictBert):
    """Arguments of `tfnlp predict roberta`."""


_PLAN = masked_plan("roberta", SIZES, vocab_size=50265)
ROBERTA = encoders.encoder_family(
    "roberta",
    ROBERTA_TEXT,
    title="a RoBERTa",
    summary="Pretrain a RoBERTa: masked LM on windows of whole sentences.",
    config=RobertaConfig,
    sizes=SIZES,
    checkpoints="config.json beside Hugging Face's weights of a RoBERTa",
    fitting=encoders.encoder_fitting(
        "roberta",
        fine_tuned=functools.partial(fitting.fine_tuned_encoder, hidden="tanh"),
        keep_vocabulary=fitting.keep_bpe,
        restore_tokenizer=restore_tokenizer,
    ),
    examples=Examples(
        "windows of sentences; masks are drawn when they are read",
        RobertaExamplesConfig,
        ROBERTA_TEXT.examples,
    ),
    # The paper's rows; all of its training has this length.
    plan=dataclasses.replace(_PLAN, lengths=dict.fromkeys(SIZES, 512)),
    prediction=mask_prediction(
        "roberta", "Fill in <mask> with a RoBERTa.", PredictRoberta, "<mask>"
    ),
)
