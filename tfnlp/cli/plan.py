"""`tfnlp plan`: compile a training step for a TPU, without one."""

import argparse
import json
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.files import written_whole
from tfnlp.plan.config import PlanConfig


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Compile a training step for a TPU, without one: its memory, its work, the batch that fits."
    )
    add_command(commands, "plan", summary, PlanConfig)


def run(options: argparse.Namespace) -> None:
    """Print a table for the batch that was asked for, or for the largest that fits."""
    from tfnlp.plan.figures import table
    from tfnlp.plan.planning import make_plan

    config = config_of(options)
    result = make_plan(config)
    largest = result.pop("largest", None)
    if largest is not None:
        print(
            f"largest batch that fits: {largest} a replica, {largest * result['replicas']} in all"
            if largest
            else "not even one row a replica fits"
        )
    print(table(result))
    if config.json:
        with written_whole(config.json) as path, open(path, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
