"""`python -m tfnlp` is the `tfnlp` command."""

from tfnlp.cli import run

run()
