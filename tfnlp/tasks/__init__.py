"""What is learnt: a model, its loss and its metrics."""

from tfnlp.tasks.bert_pretraining import BertPretraining
from tfnlp.tasks.elmo_pretraining import ElmoPretraining
from tfnlp.tasks.fine_tuning import FineTuning
from tfnlp.tasks.gpt_finetuning import GPTFineTuning
from tfnlp.tasks.gpt_pretraining import GPTPretraining
from tfnlp.tasks.prediction import predict, predictor
from tfnlp.tasks.task import Task
from tfnlp.tasks.task_encoder import TaskEncoder
from tfnlp.tasks.task_spec import TaskSpec

__all__ = [
    "BertPretraining",
    "ElmoPretraining",
    "FineTuning",
    "GPTFineTuning",
    "GPTPretraining",
    "Task",
    "TaskEncoder",
    "TaskSpec",
    "predict",
    "predictor",
]
