"""What is learnt: a model, its loss and its metrics."""

from tfnlp.tasks.bert_pretraining import BertPretraining

__all__ = ["BertPretraining"]
