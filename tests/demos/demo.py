"""Runs what a `make` target runs."""

import os
import pathlib
import subprocess
import sys

from tests.support import ROOT


def run_demo(script, folder, **settings):
    """The whole of a `make` target, shortened; what it printed."""
    executables = pathlib.Path(sys.executable).parent
    done = subprocess.run(
        ["bash", ROOT / "examples" / script],
        capture_output=True,
        text=True,
        env={**os.environ, "BIN": str(executables), "DEMO": str(folder), **settings},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
