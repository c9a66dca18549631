"""Export of a fine-tuned model: a SavedModel, and graphs of ids for other runtimes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfnlp.families import FAMILIES

if TYPE_CHECKING:
    from tfnlp.runs.task_run import TaskRun

# Arguments of `tfnlp export`.
TASK_EXPORTS = ("format", "base", "keep_adapters", "weights", "litert", "onnx")


def export_task(
    run: TaskRun,
    directory: str,
    overwrite: bool = False,
    weights: str | None = None,
    litert: str | None = None,
    onnx: str | None = None,
) -> dict[str, str]:
    """Write the files; see `TaskRun.export`."""
    from tfnlp.hub import export_fine_tuned
    from tfnlp.hub.modules.task_files import write_task_files
    from tfnlp.hub.saving.graphs import Graphs

    def beside(folder: str, file: str) -> None:
        write_task_files(folder, file, run.task_model, _tokenizer_writer(run))

    graphs = Graphs(litert, onnx, beside)
    module = export_fine_tuned(directory, run.task_model, overwrite, weights, graphs, run.path)
    return {"module": module, **graphs.paths()}


def check_tags_alone(task: Any, path: str, name: str) -> None:
    """Check that a model gives each tag from its words alone."""
    if task.only_module:
        raise ValueError(f"`{name}`: {path} has {task.only_module}, which only a SavedModel holds")


def _tokenizer_writer(run: TaskRun) -> Callable[[str], None] | None:
    """Return the function of a folder that writes the vocabulary, or None."""
    backbone = run.config["backbone"]
    write = FAMILIES[backbone["kind"]].fitting.write_tokenizer
    if write is None:
        return None
    arguments = backbone["arguments"] or {}
    return functools.partial(write, reader=run.task_model.reader, arguments=arguments)
