"""`tfnlp export`: write SavedModels, or files that other libraries read."""

import argparse
from typing import Any

from tfnlp.cli.options import add_command, add_options, config_of
from tfnlp.families.recognition import load_pretrained
from tfnlp.runs.task_export import TASK_EXPORTS
from tfnlp.runs.task_folder import is_task
from tfnlp.settings.use import ExportSettings, ModelSettings


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = "Export a BERT or GPT as a pair of SavedModels, any other model as one."
    add_options(add_command(commands, "export", summary, ModelSettings), ExportSettings)


def run(options: argparse.Namespace) -> None:
    """Export a model; print what was written."""
    from tfnlp.runs.search_index import Index, is_index
    from tfnlp.runs.task_run import TaskRun

    config = config_of(options)
    if is_index(options.model):
        for name in sorted(config.given - {"output", "overwrite", "top"}):
            raise ValueError(f"`{name}` is for models; {options.model} is an index to search")
        written = Index(options.model).export(config.output, config.top or 5, config.overwrite)
        print(f"module: {written['module']}")
        return
    settings = {name: getattr(config, name) for name in config.given if name != "output"}
    if is_task(options.model):
        for name in sorted(set(settings) - {*TASK_EXPORTS, "overwrite"}):
            raise ValueError(f"`{name}` is for pretrained models; {options.model} is fine-tuned")
        loaded = TaskRun(options.model)
    else:
        loaded = load_pretrained(options.model)
    for name, path in loaded.export(config.output, **settings).items():
        print(f"{name}: {path}")
