"""BERT (Devlin et al. 2019) as a family."""

import functools
import sys
from typing import Any

from tfnlp.families import defaults, encoders
from tfnlp.families.masked_text import MaskedText, head_arguments
from tfnlp.families.masks import mask_prediction
from tfnlp.families.plans import masked_plan
from tfnlp.families.subwords import WORDPIECE
from tfnlp.settings.bert import SIZES, BertSettings

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


def settle(config: BertSettings, before: Any) -> BertSettings:
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
    config=BertSettings,
    sizes=SIZES,
    settle=settle,
    recognise=recognise,
    checkpoints="bert_config.json or config.json beside the weights of Google or Hugging Face",
    fitting=encoders.encoder_fitting("bert"),
    plan=masked_plan("bert", SIZES, vocab_size=30522, label="next_sentence_labels"),
    prediction=mask_prediction("bert", "a BERT", "[MASK]", pairs=True),
)  # fmt: skip
