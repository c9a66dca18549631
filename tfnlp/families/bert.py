"""BERT (Devlin et al. 2019) as a family."""

import sys
from typing import Any

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.encoders import BERT_FILES
from tfnlp.families.encoder import Encoder
from tfnlp.families.sizes import learning_rate, recorded
from tfnlp.settings.encoders import BertSettings, PairPrediction

_MOSTLY_RANDOM = 0.75  # share of random pairs; half are random where documents have sentences


class Bert(Encoder):
    """Masked LM and next sentence."""

    name, title = "bert", "a BERT"
    prediction = PairPrediction
    sizes = {
        "tiny": models.BERT_TINY,
        "mini": models.BERT_MINI,
        "small": models.BERT_SMALL,
        "medium": models.BERT_MEDIUM,
        "base": models.BERT_BASE,
        "large": models.BERT_LARGE,
    }
    encoder, pretrainer = staticmethod(models.bert), staticmethod(models.bert_pretrainer)
    files = BERT_FILES
    second = "random"
    copied = (*Encoder.copied, "next_sentence_head")
    plan_vocab_size, plan_label = 30522, "next_sentence_labels"

    def heads(self, settings: Any, before: Pretrained | None, batches: Any) -> dict[str, Any]:
        """Return the arguments of `bert_pretrainer`.

        The next-sentence head is trained on only where there are next sentences: a text of one line
        a document makes random pairs alone, and the head would learn to call all pairs random.
        """
        heads = self.head_arguments(settings, before, "next_sentence")
        if before is not None and heads["next_sentence"] and batches.random_share > _MOSTLY_RANDOM:
            heads["next_sentence"] = False
            said = "next sentences are left out: documents of one sentence have none"
            print(said, file=sys.stderr)
        return heads

    def settle(self, settings: BertSettings, before: Pretrained | None) -> BertSettings:
        changes = {}
        if settings.seq_length is None:
            changes["seq_length"] = min(128, before.config["max_positions"]) if before else 128
        if settings.learning_rate is None:
            found = recorded(settings, settings.output, "training", "learning_rate")
            sizes = before.config if before else {}
            layers, width = sizes.get("num_layers"), sizes.get("hidden_size")
            changes["learning_rate"] = found or learning_rate((3e-4, 1e-4), layers, width)
        return super().settle(settings.replace(**changes), before)
