"""ALBERT (Lan et al. 2020) as a family."""

import dataclasses

from tfnlp.configs import option, redefine
from tfnlp.families import encoders
from tfnlp.families.albert_text import ALBERT_TEXT, keep_vocabulary, restore_tokenizer
from tfnlp.families.config import (
    PACK_PAIRS,
    MaskedTextConfig,
    PackConfig,
    PositionConfig,
    StartConfig,
    TrainingConfig,
)
from tfnlp.families.examples_config import BertExamplesConfig
from tfnlp.families.family import Examples
from tfnlp.families.masks import PredictBert, mask_prediction
from tfnlp.families.plans import masked_plan

SIZES = {
    name: f"ALBERT_{name.upper()}"
    for name in ("tiny", "mini", "small", "medium", "base", "large", "xlarge", "xxlarge")
}


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=None, pack={"help": PACK_PAIRS},
    steps={"help": "updates (default: 10000, or those of the epochs)"},
    batch_size=32, learning_rate=5e-4, warmup=0.1, schedule="linear", optimizer="bert_adamw",
    weight_decay=0.01, clip_norm=1.0, dropout=0.0,
    vocab={"help": "spiece.model; built from the text if absent"},
)  # fmt: skip
class AlbertConfig(TrainingConfig, PositionConfig, StartConfig, PackConfig, MaskedTextConfig):
    """Masked LM and sentence order; for small models on one machine.

    The paper (section 4.1): LAMB, 1.76e-3 at its peak, batches of 4,096 rows of 512 tokens,
    125,000 steps, spans of up to three words masked together (here single tokens, or whole words
    with `whole_word`).
    """

    default_steps = 10_000
    cased: bool = option(False, "keep case and accents", group="text")
    size: str = option(
        "tiny", "size; base, large, xlarge and xxlarge are the paper's",
        choices=tuple(SIZES), group="model",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
@redefine(vocab={"help": "spiece.model; built from --input if absent, by one process"})
class AlbertExamplesConfig(BertExamplesConfig):
    """Pairs of segments, half of them swapped; masks are drawn when they are read."""


@dataclasses.dataclass(kw_only=True)
@redefine(pair={"help": "second text: does it follow the (one) text, or come before it?"})
class PredictAlbert(PredictBert):
    """Arguments of `tfnlp predict albert`."""


ALBERT = encoders.encoder_family(
    "albert",
    ALBERT_TEXT,
    title="an ALBERT",
    summary="Pretrain an ALBERT: masked LM and sentence order.",
    config=AlbertConfig,
    sizes=SIZES,
    checkpoints="config.json beside Hugging Face's weights of an ALBERT",
    fitting=encoders.encoder_fitting(
        "albert",
        keep_vocabulary=keep_vocabulary,
        restore_tokenizer=restore_tokenizer,
    ),
    examples=Examples(
        "pairs of segments, half of them swapped; masks are drawn when they are read",
        AlbertExamplesConfig,
        ALBERT_TEXT.examples,
    ),
    plan=masked_plan("albert", SIZES, vocab_size=30000, label="sentence_order_labels"),
    prediction=mask_prediction(
        "albert",
        "Fill in [MASK], or tell whether one text follows another, with an ALBERT.",
        PredictAlbert,
        "[MASK]",
    ),
)
