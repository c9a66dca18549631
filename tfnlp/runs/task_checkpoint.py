"""Fine-tuned checkpoints of Hugging Face as what fine-tuning leaves."""

from typing import Any

import numpy as np

from tfnlp.checkpoints.heads import assign_head
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.families import FAMILIES
from tfnlp.families.recognition import place_of
from tfnlp.formats import recognised_task
from tfnlp.hub import TaskModel
from tfnlp.runs.backbone import backbone_config
from tfnlp.tasks import TASKS

_TOKENS = "token_embedding/embeddings"


def load_checkpoint(folder: str) -> tuple[Any, dict[str, Any]] | None:
    """Return the model of a fine-tuned checkpoint and the config that its run would have.

    Returns:
        `(TaskModel, config)`, or None if the folder holds no such checkpoint. `config["open"]`
        says that the number of texts or choices of an example is not known.
    """
    place = place_of(folder)
    known = recognised_task(place)
    if known is None:
        return None
    found = known.read_task(place)
    backbone = found.backbone
    task = found.task
    if task is None:  # the first of those with such outputs
        kind = next(one for one in TASKS.values() if one.output == found.output)
        task = kind.of_checkpoint(found.labels, backbone.config["max_positions"])
    config = {
        "spec": task.config(),
        "head": {"dropout": backbone.config["dropout"]},
        "features": None,
        "backbone": backbone_config(backbone),
        "columns": {"text": None, "label": None},
        "open": found.task is None,
    }
    reader = backbone.family.reader(backbone) if found.reader is None else found.reader()
    task_model = TaskModel(task, reader, _model(backbone, task, config["head"]))
    if found.rows is not None:  # the last ones of the table of tokens
        (table,) = (w for w in task_model.model.weights if w.path == _TOKENS)
        kept = np.asarray(table)[: -len(found.rows)]
        found.weights[_TOKENS] = np.concatenate([kept, found.rows])
    assign_head(task_model.model, found.weights)
    backbone.encoder = backbone.pretrainer = None  # the task's model has copies of their weights
    return task_model, config


def _model(backbone: Any, task: Any, head: dict[str, Any]) -> Any:
    return backbone.family.fine_tuned(backbone, task, head, task.head, None)


def refitted(task_model: Any, config: dict[str, Any], task: Any) -> Any:
    """Return a task's model for a task of another number of texts or choices of an example."""
    model = task_model.model
    if task.sequences != task_model.task.sequences:
        kind, arguments = config["backbone"]["kind"], config["backbone"]["arguments"]
        backbone = Pretrained(None, None, arguments, family=FAMILIES[kind])
        model = _model(backbone, task, config["head"])
        for variable, old in zip(model.weights, task_model.model.weights, strict=True):
            variable.assign(old)
    return TaskModel(task, task_model.reader, model)
