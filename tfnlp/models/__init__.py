"""Functions that assemble the layers into functional Keras models."""

from tfnlp.models.bert import (
    BERT_BASE,
    BERT_LARGE,
    BERT_MEDIUM,
    BERT_MINI,
    BERT_SMALL,
    BERT_TINY,
    bert,
    bert_pretrainer,
)

__all__ = [
    "BERT_BASE",
    "BERT_LARGE",
    "BERT_MEDIUM",
    "BERT_MINI",
    "BERT_SMALL",
    "BERT_TINY",
    "bert",
    "bert_pretrainer",
]
