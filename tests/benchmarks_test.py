"""The scripts of `benchmarks/` load, and the one for GPUs runs on a CPU."""

import importlib
import json
import pathlib

import pytest

import benchmarks
from tests.support import run_python

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


@pytest.mark.long
@pytest.mark.parametrize("case", ["GPT-2 small step", "8 prompts"])
def test_the_script_for_gpus_measures_small_models(case, tmp_path):
    cases = ["--tiny", "--sides", "tfnlp", "--only", case, "--block", "0.01"]
    script = "from benchmarks.gpu import main; main()"
    run_python(script, *cases, "--output", tmp_path, env={"JAX_PLATFORMS": "cpu"})
    found = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    (name,) = found.keys() - {"machine"}
    assert found[name]["tfnlp"]["rate"] > 0
