"""BERT's pretraining text: masked sentence pairs, half of them with a random second sentence."""

import sys
from typing import Any

from tfnlp.families.masked_text import MaskedText, sizes_of_config
from tfnlp.families.subwords import WORDPIECE

_MOSTLY_RANDOM = 0.75  # share of random pairs; half are random where documents have sentences


def _sizes(config: Any, before: Any) -> dict[str, Any]:
    from tfnlp import models
    from tfnlp.convert.bert import BERT_FILES
    from tfnlp.convert.encoders.config import config_of
    from tfnlp.families.bert import SIZES

    old = None if before is None else config_of(BERT_FILES, before.encoder)
    return sizes_of_config(config, getattr(models, SIZES[config.size]), old)


def _heads(config: Any, before: Any, batches: Any) -> dict[str, Any]:
    """Return the arguments of `bert_pretrainer`.

    The next-sentence head is trained on only where there are next sentences: a text of one line a
    document makes random pairs alone, and the head would learn to call all pairs random.
    """
    if before is None:
        return {
            "masked_lm": True,
            "next_sentence": True,
            "initializer_range": config.initializer_range,
        }
    head = before.pretrainer.get_layer("masked_lm_head")
    next_sentence = "next_sentence_logits" in before.pretrainer.output
    if next_sentence and batches.random_share > _MOSTLY_RANDOM:
        next_sentence = False
        print("next sentences are left out: documents of one sentence have none", file=sys.stderr)
    return {
        "activation": head.activation,
        "norm_epsilon": head.norm_epsilon,
        "masked_lm": True,
        "next_sentence": next_sentence,
        "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
    }


BERT_TEXT = MaskedText(
    title="BERT",
    subwords=WORDPIECE,
    second="random",
    sizes=_sizes,
    heads=_heads,
    copied=("masked_lm_head", "masked_lm_bias", "next_sentence_head"),
)
