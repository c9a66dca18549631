"""`tfnlp check FILE [TASK]`: show what labelled examples are, and what looks wrong with them."""

import argparse
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.settings.use import CheckSettings


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = "Show how labelled examples are read, and what looks wrong with them."
    add_command(commands, "check", summary, CheckSettings)


def run(options: argparse.Namespace) -> None:
    """Print what is found."""
    from tfnlp.runs.checking import check_rows

    print(check_rows(config_of(options)))
