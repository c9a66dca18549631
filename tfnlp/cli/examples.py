"""`tfnlp examples MODEL`: write training examples of big corpora as shards."""

import argparse
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.settings.tables import EXAMPLES


def add_to(commands: Any) -> None:
    """Add the sub-command, with one of its own for each family that has examples."""
    parser = add_command(
        commands,
        "examples",
        "Make training examples of big corpora: raw text to shards, by an Apache Beam pipeline.",
    )
    models = parser.add_subparsers(dest="family", required=True, metavar="MODEL")
    for name, (settings, summary) in EXAMPLES.items():
        add_command(models, name, summary, settings)


def run(options: argparse.Namespace) -> None:
    """Write a folder of examples; the same command again goes on where it was stopped."""
    from tfnlp.families import FAMILIES
    from tfnlp.runs.examples import report, write_examples

    config = config_of(options)
    print(report(config.output, write_examples(FAMILIES[options.family], config)))
