"""`tfnlp plan`: compile a training step for a TPU, without one."""

import argparse
import json
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.files import written_whole
from tfnlp.settings.plan import PlanSettings


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Compile a training step for a TPU, without one: its memory, its time, the batch that fits."
    )
    add_command(commands, "plan", summary, PlanSettings)


def run(options: argparse.Namespace) -> None:
    """Print the plan of the batch that was asked for, or of the largest that fits."""
    from tfnlp.plan.planning import make_plan
    from tfnlp.plan.report import report

    config = config_of(options)
    result = make_plan(config)
    print(report(config, result))
    if config.json:
        with written_whole(config.json) as path, open(path, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
