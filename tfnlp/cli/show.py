"""`tfnlp show`: what is in a model, as a page to look into."""

import argparse
import dataclasses
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.settings.show import PICTURES

READS_MODEL = True  # the one that it is given, and writes nothing to it


def add_to(commands: Any) -> None:
    """Add the sub-command, with one of its own for each kind of picture."""
    parser = add_command(
        commands,
        "show",
        "Show what is in a model, as a page: attention, layers, neighbours, a map of words.",
    )
    pictures = parser.add_subparsers(dest="picture", required=True, metavar="PICTURE")
    for name, (settings, summary) in PICTURES.items():
        add_command(pictures, name, summary, settings)


def run(options: argparse.Namespace) -> None:
    """Print what the picture shows, and write it."""
    from tfnlp import show

    config = config_of(options)
    given = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    output = given.pop("output")
    picture = getattr(show, options.picture)(**given)
    picture.save(output)
    print(f"{picture}\n{output}")
