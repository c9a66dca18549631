"""What is learnt: a model, its loss and its metrics."""

from tfnlp.tasks.bert_pretraining import BertPretraining
from tfnlp.tasks.elmo_pretraining import ElmoPretraining
from tfnlp.tasks.labelling import Labelling
from tfnlp.tasks.task import Task

__all__ = ["BertPretraining", "ElmoPretraining", "Labelling", "Task"]
