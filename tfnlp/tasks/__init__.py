"""Tasks of fine-tuning: their losses, the decoding of their outputs, their measures."""

from tfnlp.tasks.fine_tuning import FineTuning
from tfnlp.tasks.gpt_finetuning import GPTFineTuning
from tfnlp.tasks.sentence_training import SentenceTraining
from tfnlp.tasks.task_distillation import TaskDistillation
from tfnlp.tasks.task_encoder import TaskEncoder
from tfnlp.tasks.task_spec import TaskSpec

__all__ = [
    "FineTuning",
    "GPTFineTuning",
    "SentenceTraining",
    "TaskDistillation",
    "TaskEncoder",
    "TaskSpec",
]
