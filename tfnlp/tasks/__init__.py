"""Tasks of fine-tuning, one file each, with their losses, decoding and measures."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tfnlp.tasks.answer import Answer
from tfnlp.tasks.choose import Choose
from tfnlp.tasks.classify import Classify
from tfnlp.tasks.coref import Coref
from tfnlp.tasks.embed import Embed
from tfnlp.tasks.fill import Fill
from tfnlp.tasks.fine_tuning import FineTuning, GPTFineTuning
from tfnlp.tasks.labels import Labels
from tfnlp.tasks.roles import Roles
from tfnlp.tasks.scores import Scores
from tfnlp.tasks.sentence_training import SentenceTraining
from tfnlp.tasks.similarity import Similarity
from tfnlp.tasks.tag import Tag
from tfnlp.tasks.task import HeadTask, Task
from tfnlp.tasks.task_distillation import TaskDistillation

__all__ = [
    "TASKS",
    "Answer",
    "Choose",
    "Classify",
    "Coref",
    "Embed",
    "Fill",
    "FineTuning",
    "GPTFineTuning",
    "HeadTask",
    "Labels",
    "Roles",
    "Scores",
    "SentenceTraining",
    "Similarity",
    "Tag",
    "Task",
    "TaskDistillation",
    "task_of",
]

# A new task is one line here.
TASKS: dict[str, type[Task]] = {task.name: task for task in (
    Classify, Labels, Similarity, Scores, Choose, Answer, Tag, Roles, Coref, Embed, Fill,
)}  # fmt: skip
_HEADS = {name: task for name, task in TASKS.items() if issubclass(task, HeadTask)}
_FIELDS = {field.name for task in _HEADS.values() for field in dataclasses.fields(task)}


def task_of(config: Mapping[str, Any]) -> HeadTask:
    """Return the task that a run's `config.json` keeps, see `HeadTask.config`.

    Raises:
        ValueError: for an unknown task or field, a value out of range, or values that do not fit
            together.
    """
    config = dict(config)
    name = config.pop("task", None)
    if name not in _HEADS:
        raise ValueError(f"task={name!r} must be one of {', '.join(_HEADS)}")
    unknown = sorted(set(config) - _FIELDS)
    if unknown:
        raise ValueError(f"{name} has no {unknown[0]}")
    own = {field.name for field in dataclasses.fields(_HEADS[name])}
    return _HEADS[name](**{n: value for n, value in config.items() if n in own})
