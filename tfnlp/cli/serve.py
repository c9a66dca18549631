"""`tfnlp serve MODULE`: a page and JSON over HTTP for an exported module."""

import argparse
from typing import Any

from tfnlp.cli.options import add_command, config_of
from tfnlp.settings.serve import ServeSettings


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Serve an exported module: a page to try it out, and JSON over HTTP. Needs the extra serve."
    )
    add_command(commands, "serve", summary, ServeSettings)


def run(options: argparse.Namespace) -> None:
    """Serve until Ctrl-C."""
    from tfnlp.serving.server import serve

    serve(config_of(options))
