"""BERT (Devlin et al. 2019) as a family."""

import dataclasses
import functools
import sys
from typing import Any

from tfnlp.configs import option, redefine
from tfnlp.families import defaults, encoders
from tfnlp.families.config import CHANGED_SIZES, PACK_PAIRS, CasedEncoderConfig
from tfnlp.families.masked_text import MaskedText, head_arguments
from tfnlp.families.masks import mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.subwords import WORDPIECE

SIZES = {
    name: f"BERT_{name.upper()}" for name in ("tiny", "mini", "small", "medium", "base", "large")
}
_MOSTLY_RANDOM = 0.75  # share of random pairs; half are random where documents have sentences


def _heads(config: Any, before: Any, batches: Any) -> dict[str, Any]:
    """Return the arguments of `bert_pretrainer`.

    The next-sentence head is trained on only where there are next sentences: a text of one line a
    document makes random pairs alone, and the head would learn to call all pairs random.
    """
    heads = head_arguments(config, before, batches, "next_sentence")
    if before is not None and heads["next_sentence"] and batches.random_share > _MOSTLY_RANDOM:
        heads["next_sentence"] = False
        print("next sentences are left out: documents of one sentence have none", file=sys.stderr)
    return heads


BERT_TEXT = MaskedText(
    title="BERT",
    subwords=WORDPIECE,
    second="random",
    sizes=functools.partial(encoders.encoder_sizes, "bert"),
    heads=_heads,
    copied=("masked_lm_head", "masked_lm_bias", "next_sentence_head"),
)


@dataclasses.dataclass(kw_only=True)
@redefine(
    pack={"help": PACK_PAIRS}, optimizer="bert_adamw", warmup=0.1, weight_decay=0.01, clip_norm=1.0,
)  # fmt: skip
class BertConfig(CasedEncoderConfig):
    """Masked LM and next sentence.

    The paper: batches of 256, 1e-4 at its peak, 10,000 of 1,000,000 steps of warm-up (A.2).
    """

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
    plan=masked_plan("bert", SIZES, vocab_size=30522, label="next_sentence_labels"),
    prediction=mask_prediction("bert", "a BERT", "[MASK]", pairs=True),
)  # fmt: skip
