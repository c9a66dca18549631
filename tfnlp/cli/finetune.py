"""`tfnlp finetune TASK`: fine-tune a pretrained model, or train a network on its features."""

import argparse
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.settings.tables import TASKS


def add_to(commands: Any) -> None:
    """Add the sub-command, with one of its own for each task."""
    parser = add_command(
        commands,
        "finetune",
        "Fine-tune a pretrained model on a task, or train a network on its frozen features.",
    )
    tasks = parser.add_subparsers(dest="task", required=True, metavar="TASK")
    for name, (config, summary) in TASKS.items():
        add_command(tasks, name, summary, config)


def run(options: argparse.Namespace) -> None:
    """Train each combination of features and seed that is asked for."""
    from tfnlp.runs.finetuning import finetune_task
    from tfnlp.tasks import TASKS as KINDS

    kind = KINDS[options.task]
    results, _ = finetune_task(kind, config_of(options))
    if kind.hint:
        print(kind.hint.format(folder=results["folder"]))
