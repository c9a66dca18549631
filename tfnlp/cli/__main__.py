"""`python -m tfnlp.cli` is the `tfnlp` command."""

from tfnlp.cli.command import run

run()
