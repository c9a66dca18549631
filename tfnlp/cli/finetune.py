"""`tfnlp finetune TASK`: fine-tune a pretrained model, or train a network on its features."""

import argparse
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.settings.finetune import EMBED, FILL
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

    results, _ = finetune_task(options.task, config_of(options))
    folder = results["folder"]
    if options.task == EMBED:
        print(
            f"vectors of texts: tfnlp embed --model {folder} --input FILE --output vectors.npy\n"
            f"measures on other pairs: tfnlp evaluate --model {folder} --pairs FILE"
        )
    if options.task == FILL:
        print(
            f"fill in masked words with it: tfnlp predict bert --model {folder} 'A [MASK] ...'\n"
            f"one SavedModel of it: tfnlp export --model {folder} --output DIR --fill"
        )
