"""Tasks of fine-tuning, one file each, with their losses, decoding and measures."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfnlp.tasks.answer import Answer
from tfnlp.tasks.choose import Choose
from tfnlp.tasks.classify import Classify
from tfnlp.tasks.fine_tuning import FineTuning
from tfnlp.tasks.gpt_finetuning import GPTFineTuning
from tfnlp.tasks.labels import Labels
from tfnlp.tasks.roles import Roles
from tfnlp.tasks.sentence_training import SentenceTraining
from tfnlp.tasks.similarity import Similarity
from tfnlp.tasks.tag import Tag
from tfnlp.tasks.task import Task
from tfnlp.tasks.task_distillation import TaskDistillation

__all__ = [
    "TASKS",
    "Answer",
    "Choose",
    "Classify",
    "FineTuning",
    "GPTFineTuning",
    "Labels",
    "Roles",
    "SentenceTraining",
    "Similarity",
    "Tag",
    "Task",
    "TaskDistillation",
    "task_of",
]

# A new task is one line here.
TASKS: dict[str, type[Task]] = {
    task.name: task for task in (Classify, Labels, Similarity, Choose, Answer, Tag, Roles)
}
_FIELDS = {field.name for task in TASKS.values() for field in dataclasses.fields(task)}


def task_of(config: Mapping[str, Any]) -> Task:
    """Return the task that a run's `config.json` keeps, see `Task.config`.

    Raises:
        ValueError: for an unknown task or field, a value out of range, or values that do not fit
            together.
    """
    config = dict(config)
    name = config.pop("task", None)
    if name not in TASKS:
        raise ValueError(f"task={name!r} must be one of {', '.join(TASKS)}")
    unknown = sorted(set(config) - _FIELDS)
    if unknown:
        raise ValueError(f"{name} has no {unknown[0]}")
    own = {field.name for field in dataclasses.fields(TASKS[name])}
    return TASKS[name](**{n: value for n, value in config.items() if n in own})
