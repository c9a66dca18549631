"""BERT (Devlin et al. 2019) as a family."""

import dataclasses
from typing import Any

from tfnlp.configs import option, redefine
from tfnlp.families import defaults, encoders
from tfnlp.families.bert_text import BERT_TEXT
from tfnlp.families.config import (
    CHANGED_SIZES,
    PACK_PAIRS,
    MaskedTextConfig,
    PackConfig,
    PositionConfig,
    StartConfig,
    TrainingConfig,
)
from tfnlp.families.examples_config import BertExamplesConfig
from tfnlp.families.family import Examples
from tfnlp.families.masks import BERT_PREDICTION
from tfnlp.families.plans import BERT_PLAN

SIZES = {
    name: f"BERT_{name.upper()}" for name in ("tiny", "mini", "small", "medium", "base", "large")
}


@dataclasses.dataclass(kw_only=True)
@redefine(
    epochs=None, pack={"help": PACK_PAIRS},
    steps={"help": "updates (default: 10000, or those of the epochs)"},
    batch_size=32, learning_rate=5e-4, warmup=0.1, schedule="linear", optimizer="bert_adamw",
    weight_decay=0.01, clip_norm=1.0,
)  # fmt: skip
class BertConfig(TrainingConfig, PositionConfig, StartConfig, PackConfig, MaskedTextConfig):
    """Masked LM and next sentence; for small models on one machine.

    The paper: batches of 256, 1e-4 at its peak, 10,000 of 1,000,000 steps of warm-up (A.2).
    """

    default_steps = 10_000
    cased: bool = option(False, "keep case and accents", group="text")
    size: str = option("tiny", "published size", choices=tuple(SIZES), group="model")


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
    **{name: {"hidden": True} for name in (
        "vocab", "vocab_size", "cased", "examples", "size", "max_positions", "initializer_range",
        *CHANGED_SIZES,
    )},
)  # fmt: skip
class FillConfig(BertConfig):
    """Go on with the masked LM of a BERT on other text.

    The numbers are those of Gururangan et al. 2020 ("Don't stop pretraining", appendix): AdamW,
    1e-4 at its peak, a warm-up of 6 %, decay 0.01.
    """


def settle(config: BertConfig, before: Any) -> BertConfig:
    """Return the config with a length and a rate that suit the model to go on from."""
    changes = {}
    if config.seq_length is None:
        changes["seq_length"] = min(128, before.config["max_positions"]) if before else 128
    if config.learning_rate is None:
        found = defaults.recorded(config, config.output, "training", "learning_rate")
        sizes = before.config if before else {}
        layers, width = sizes.get("num_layers"), sizes.get("hidden_size")
        changes["learning_rate"] = found or defaults.learning_rate((3e-4, 1e-4), layers, width)
    return config.replace(**changes)


def recognise(folder: str, names: list[str], model_type: str | None) -> bool:
    """Return whether a folder holds files of a BERT."""
    if model_type is not None:
        return model_type == BERT.name
    return "bert_config.json" in names or "config.json" in names and "params_0.npy" not in names


BERT = encoders.encoder_family(
    "bert",
    BERT_TEXT,
    title="a BERT",
    summary="Pretrain a BERT: masked LM and next sentence.",
    config=BertConfig,
    sizes=SIZES,
    settle=settle,
    recognise=recognise,
    checkpoints="bert_config.json or config.json beside the weights of Google or Hugging Face",
    fitting=encoders.encoder_fitting("bert"),
    examples=Examples(
        "sentence pairs; masks are drawn when they are read",
        BertExamplesConfig,
        BERT_TEXT.examples,
    ),
    plan=BERT_PLAN,
    prediction=BERT_PREDICTION,
)  # fmt: skip
