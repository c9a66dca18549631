"""A smaller model to fine-tune, made of some layers of another one."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from tfnlp.runs import task_folder


def with_kept_layers(model: Any, layers: Sequence[int], output: str | None) -> Any:
    """Return the `Pretrained` of some layers of a model, which itself is not changed.

    Args:
        model: See `task_folder.load_backbone`; or a fine-tuned run, or its `TaskRun`.
        layers: Numbers of the layers, from 0 on.
        output: See `task_folder.load_backbone`.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp import models

    whole = _fine_tuned(model) or task_folder.load_backbone(model, output)
    if whole.saved:
        raise ValueError(
            f"`keep_layers` needs a run or a checkpoint; {whole.path} is an exported module"
        )
    try:
        encoder, arguments = models.with_layers(
            whole.family.encoder_function(), whole.encoder, whole.config, layers
        )
    except ValueError as error:
        raise ValueError(f"`keep_layers` of {whole.path}: {error}") from error
    return dataclasses.replace(whole, encoder=encoder, pretrainer=None, config=arguments)


def _fine_tuned(model: Any) -> Any:
    """Return the `Pretrained` inside a fine-tuned run; None of anything else."""
    from tfnlp.families.several_runs import best_run
    from tfnlp.runs.task_run import TaskRun
    from tfnlp.training.run import is_run, read_config

    if isinstance(model, TaskRun):
        return _encoder_of(model)
    if not isinstance(model, str | os.PathLike):
        return None
    folder = best_run(os.fspath(model))
    if not is_run(folder) or read_config(folder).get("model") != "task":
        return None
    return _encoder_of(TaskRun(model))


def _encoder_of(run: Any) -> Any:
    """Return the encoder of a `TaskRun` as it was trained, without the task's head."""
    from tfnlp.runs.finetune_examples import say

    config = run.config["backbone"]
    if run.config["features"] is not None or config["saved"]:
        raise ValueError(
            f"{run.path} was not fine-tuned as a whole from a run or a checkpoint; give the model "
            "that it was made from"
        )
    backbone = task_folder.kept_backbone(run.folder, config, fine_tuned=False)
    trained = {variable.path: variable for variable in run.task_model.model.weights}
    for variable in backbone.encoder.weights:
        found = trained.get(variable.path)
        if found is not None:
            variable.assign(found[: variable.shape[0]])  # a GPT's table has rows of the task
        elif not variable.path.startswith("pooler/"):  # which not all tasks have
            raise ValueError(f"{run.path} has no weight {variable.path}; give another model")
    backbone.path = run.path
    say(run.path, "its head is left out; a new one is learnt")
    return backbone
