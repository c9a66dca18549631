"""`tfnlp pretrain MODEL`: pretrain a model on raw text, or train one to translate."""

import argparse
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.settings import tables


def add_to(commands: Any) -> None:
    """Add the sub-command, with one of its own for each family."""
    parser = add_command(
        commands, "pretrain", "Pretrain a model on raw text, or train one to translate."
    )
    models = parser.add_subparsers(dest="family", required=True, metavar="MODEL")
    for name, (settings, summary) in tables.FAMILIES.items():
        add_command(models, name, summary, settings)


def run(options: argparse.Namespace) -> None:
    """Train text to a run's folder; the same command again resumes a run that was stopped."""
    from tfnlp.families import FAMILIES
    from tfnlp.runs.pretraining import train_family

    train_family(FAMILIES[options.family], config_of(options))
