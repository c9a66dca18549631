"""The demos of the Makefile, shortened: they run to their end and show what they should."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.support import ROOT, run_python

pytestmark = pytest.mark.timeout(900)


def run_demo(script, folder, **settings):
    """Return what a script of `examples/` printed; `settings` shorten it."""
    executables = pathlib.Path(sys.executable).parent
    done = subprocess.run(
        ["bash", ROOT / "examples" / script],
        capture_output=True,
        text=True,
        env={**os.environ, "BIN": str(executables), "DEMO": str(folder), **settings},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_bert(tmp_path):
    shown = run_demo("demo.sh", tmp_path, STEPS="20")
    assert "nearest to: The robin sang in the tree." in shown
    assert "Mary went into the [MASK]" in shown
    for name in ("run/page.html", "attention.html"):
        assert (tmp_path / name).exists() and str(tmp_path / name) in shown


@pytest.mark.long
def test_elmo(tmp_path):
    shown = run_demo("demo_elmo.sh", tmp_path, EPOCHS="0.02")
    assert "full softmax, after" in shown
    assert "She [left] the room ." in shown and "He turned to the [left] ." in shown
    assert "moved 4 scalars of the mix" in shown
    assert (tmp_path / "elmo/page.html").exists()


@pytest.mark.long
def test_gpt(tmp_path):
    shown = run_demo("demo_gpt.sh", tmp_path, EPOCHS="0.04")
    assert "a token" in shown and "Mary opened the door" in shown
    assert shown.count("The robin") >= 2 and "after five updates" in shown
    assert (tmp_path / "gpt/page.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bert", "elmo"])
def test_from_scratch(model, tmp_path):
    script = ROOT / "examples" / f"{model}_from_scratch.py"
    shown = run_python(script, "--steps", 40, "--width", 16, folder=tmp_path).stdout
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", shown)]
    assert losses[4] < losses[0] - 0.1  # of pretraining
    assert len(re.findall(r"from (?:scratch|the pretrained): [\d.]+% right", shown)) == 2


@pytest.mark.slow
def test_the_wheel_holds_the_files_of_the_package(tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "tfnlp", tree / "tfnlp", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*wheel, "--wheel-dir", tmp_path, tree], check=True)
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as file:
        held = {name for name in file.namelist() if ".dist-info/" not in name}
    assert held == {str(f.relative_to(tree)) for f in (tree / "tfnlp").glob("**/*") if f.is_file()}
