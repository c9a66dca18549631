"""Runs what a `make` target runs."""

import os
import pathlib
import subprocess

from tests.stand_ins import stand_ins

ROOT = pathlib.Path(__file__).parents[2]


def run_demo(script, folder, **settings):
    """The whole of a `make` target, shortened; what it printed."""
    with stand_ins() as executables:
        done = subprocess.run(
            ["bash", str(ROOT / "examples" / script)],
            capture_output=True,
            text=True,
            env={**os.environ, "BIN": str(executables), "DEMO": str(folder), **settings},
        )
    assert done.returncode == 0, done.stderr
    return done.stdout
