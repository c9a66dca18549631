"""`tfnlp verify FOLDER`: compare tfnlp with the library that a folder is for."""

import argparse
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.settings.use import VerifySettings


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Compare what tfnlp and transformers, or sentence-transformers, make of texts with the "
        "model of a folder; exit code 1 if they differ."
    )
    add_command(commands, "verify", summary, VerifySettings)


def run(options: argparse.Namespace) -> int:
    """Print the largest differences; return 1 if some are large."""
    from tfnlp.runs.front_door import verify

    config = config_of(options)
    found = verify(config.folder, config.texts, python=config.python, card=config.card)
    print(found)
    return 0 if found.is_equal else 1
