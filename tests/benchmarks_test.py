"""The scripts of `benchmarks/` load."""

import importlib
import pathlib

import pytest

import benchmarks

SCRIPTS = sorted(path.stem for path in pathlib.Path(benchmarks.__path__[0]).glob("[!_]*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_load(name):
    try:
        importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] in ("tfnlp", "benchmarks"):
            raise
        pytest.skip(f"needs {error.name}")
