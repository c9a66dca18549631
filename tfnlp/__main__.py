"""`python -m tfnlp` is the `tfnlp` command."""

import runpy

runpy.run_module("tfnlp.cli", run_name="__main__", alter_sys=True)
