"""The `tfnlp` command: it parses, calls the functions of the other packages, and prints."""

from tfnlp.cli.command import main, parse, run

__all__ = ["main", "parse", "run"]
