"""`python -m tfnlp.cli` is the `tfnlp` command."""

from tfnlp.cli import run

run()
