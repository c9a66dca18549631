"""Fine-tuned checkpoints of Hugging Face as what fine-tuning leaves, and back."""

import pathlib
from typing import Any

import numpy as np

from tfnlp.families import FAMILIES
from tfnlp.runs.task_folder import backbone_config

_TOKENS = "token_embedding/embeddings"


def task_files_of(folder: str) -> tuple[Any, Any, str] | None:
    """Return whose fine-tuned checkpoint a folder holds.

    Returns:
        `(Family, TaskFiles, class of transformers)`, or None if it holds none, or a `config.json`
        that can't be read: who loads the folder as something else says so.
    """
    from tfnlp.checkpoints.formats.json_files import read_json
    from tfnlp.checkpoints.heads import architecture_of

    path = pathlib.Path(folder) / "config.json"
    if not path.is_file():
        return None
    try:
        config = read_json(path)
    except ValueError:
        return None
    if "architectures" not in config:
        return None
    for family in FAMILIES.values():
        if family.fitting is None or family.fitting.task_files is None:
            continue
        files = family.fitting.task_files()
        architecture = architecture_of(config, files.architectures)
        if architecture is not None:
            return family, files, architecture
    return None


def load_checkpoint(folder: str) -> tuple[Any, dict[str, Any]] | None:
    """Return the model of a fine-tuned checkpoint and the config that its run would have.

    Returns:
        `(TaskModel, config)`, or None if the folder holds no such checkpoint. `config["open"]`
        says that the number of texts or choices of an example is not known.
    """
    from tfnlp.checkpoints.heads import assign_head
    from tfnlp.hub import TaskModel
    from tfnlp.tasks import TASKS

    known = task_files_of(folder)
    if known is None:
        return None
    family, files, architecture = known
    found = files.read(folder, architecture)
    backbone = found.backbone
    backbone.family, backbone.path = family, folder
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
    reader = family.fitting.reader(backbone) if found.reader is None else found.reader()
    task_model = TaskModel(task, reader, _model(backbone, task, config["head"]))
    if found.rows is not None:  # the last ones of the table of tokens
        (table,) = (w for w in task_model.model.weights if w.path == _TOKENS)
        kept = np.asarray(table)[: -len(found.rows)]
        found.weights[_TOKENS] = np.concatenate([kept, found.rows])
    assign_head(task_model.model, found.weights)
    backbone.encoder = backbone.pretrainer = None  # the task's model has copies of their weights
    return task_model, config


def _model(backbone: Any, task: Any, head: dict[str, Any]) -> Any:
    return backbone.family.fitting.fine_tuned(backbone, task, head, task.head, None)


def refitted(task_model: Any, config: dict[str, Any], task: Any) -> Any:
    """Return a task's model for a task of another number of texts or choices of an example."""
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.hub import TaskModel

    model = task_model.model
    if task.sequences != task_model.task.sequences:
        kind, arguments = config["backbone"]["kind"], config["backbone"]["arguments"]
        backbone = Pretrained(None, None, arguments, family=FAMILIES[kind])
        model = _model(backbone, task, config["head"])
        for variable, old in zip(model.weights, task_model.model.weights, strict=True):
            variable.assign(old)
    return TaskModel(task, task_model.reader, model)


def save_checkpoint(
    task_model: Any, config: dict[str, Any], path: str, directory: str, overwrite: bool
) -> None:
    """Write a fine-tuned model as a folder that transformers reads."""
    family, kept = FAMILIES[config["backbone"]["kind"]], config["backbone"]
    if config["features"] is not None:
        raise ValueError(
            f"{path} is a network on frozen features, which Hugging Face has no class for; only "
            "models that are fine-tuned as a whole can be written so"
        )
    if kept["saved"]:
        raise ValueError(
            f"{path} was fine-tuned from an exported module, whose weights have no names of "
            "Hugging Face's; fine-tune the run or checkpoint that it was made from"
        )
    if task_model.task.only_module:
        raise ValueError(
            f"{path} has {task_model.task.only_module}, which Hugging Face has no class for; write "
            "it as savedmodel"
        )
    if family.fitting.task_files is None:
        raise ValueError(f"{path} is {family.title}, which Hugging Face has no class for")
    files = family.fitting.task_files()
    try:
        files.write(directory, task_model, kept["arguments"], overwrite)
    except ValueError as error:
        raise ValueError(f"{path} can't be written for Hugging Face: {error}") from error
