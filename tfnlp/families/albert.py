"""ALBERT (Lan et al. 2020) as a family."""

import hashlib
from collections.abc import Collection
from typing import Any

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.encoders import ALBERT_FILES
from tfnlp.families.encoder import Encoder
from tfnlp.families.vocabularies import Subwords
from tfnlp.settings.encoders import PairPrediction
from tfnlp.text import SentencePieceTokenizer, read_model, train_sentencepiece, write_model


class _SentencePieces(Subwords):
    """A unigram model; its tokens are the bytes of its file."""

    name = "spiece.model"
    kind = "sentencepiece"
    tokenizer = SentencePieceTokenizer
    read, write = staticmethod(read_model), staticmethod(write_model)
    train = staticmethod(train_sentencepiece)

    def marked(self, tokens: bytes, marks: Collection[str], grows: bool = True) -> bytes:
        """Return the model, to which no tokens are added."""
        return tokens

    def tokens(self, tokenizer: SentencePieceTokenizer) -> bytes:
        return tokenizer.model

    def key(self, tokens: bytes) -> str:
        return hashlib.sha256(tokens).hexdigest()


class Albert(Encoder):
    """Masked LM and sentence order."""

    name, title = "albert", "an ALBERT"
    prediction = PairPrediction
    sizes = {
        "tiny": models.ALBERT_TINY,
        "mini": models.ALBERT_MINI,
        "small": models.ALBERT_SMALL,
        "medium": models.ALBERT_MEDIUM,
        "base": models.ALBERT_BASE,
        "large": models.ALBERT_LARGE,
        "xlarge": models.ALBERT_XLARGE,
        "xxlarge": models.ALBERT_XXLARGE,
    }
    encoder, pretrainer = staticmethod(models.albert), staticmethod(models.albert_pretrainer)
    files = ALBERT_FILES
    subwords = _SentencePieces()
    second = "swapped"  # half of the pairs of segments are in the wrong order
    copied = (*Encoder.copied, "sentence_order_head")
    plan_vocab_size, plan_label = 30000, "sentence_order_labels"

    def heads(self, settings: Any, before: Pretrained | None, batches: Any) -> dict[str, Any]:
        return self.head_arguments(settings, before, "sentence_order")
