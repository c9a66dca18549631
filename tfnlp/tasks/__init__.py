"""What is learnt: a model, its loss and its metrics."""

from tfnlp.tasks.bert_pretraining import BertPretraining
from tfnlp.tasks.elmo_pretraining import ElmoPretraining
from tfnlp.tasks.gpt_finetuning import GPTFineTuning
from tfnlp.tasks.gpt_pretraining import GPTPretraining
from tfnlp.tasks.labelling import Labelling
from tfnlp.tasks.task import Task

__all__ = [
    "BertPretraining",
    "ElmoPretraining",
    "GPTFineTuning",
    "GPTPretraining",
    "Labelling",
    "Task",
]
