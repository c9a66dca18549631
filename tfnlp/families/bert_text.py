"""BERT's pretraining text: masked sentence pairs, half of them with a random second sentence."""

import functools
import sys
from typing import Any

from tfnlp.families.encoders import encoder_sizes
from tfnlp.families.masked_text import MaskedText, head_arguments
from tfnlp.families.subwords import WORDPIECE

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
    sizes=functools.partial(encoder_sizes, "bert"),
    heads=_heads,
    copied=("masked_lm_head", "masked_lm_bias", "next_sentence_head"),
)
