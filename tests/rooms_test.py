"""What each room may import, and that importing one stays light."""

import ast
import pathlib
import subprocess
import sys

import pytest

import tfnlp

ROOMS = ["layers", "models", "text", "data", "tasks", "training", "plan", "hub", "convert"]
SOURCE = pathlib.Path(tfnlp.__file__).parent


def imported(path):
    """Names of all modules that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("room", ["layers", "models"])
def test_layers_and_models_import_keras_only(room):
    files = sorted((SOURCE / room).glob("**/*.py"))
    assert files
    roots = {name.split(".")[0] for file in files for name in imported(file)}
    foreign = {"tensorflow", "tensorflow_text", "tensorflow_hub", "jax", "torch", "tf_keras"}
    assert "keras" in roots and not roots & foreign


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_from_rooms_above(room):
    below = ROOMS[ROOMS.index(room) + 1 :] + ["cli"]
    for file in sorted((SOURCE / room).glob("**/*.py")):
        for name in imported(file):
            wrong = [r for r in below if f"{name}.".startswith(f"tfnlp.{r}.")]
            assert not wrong, f"{file.name} imports {name}"


def test_import_stays_light():
    """One process imports one room after the other."""
    heavy = ["tensorflow_datasets", "tensorflow_hub", "tensorflow_text", "tensorflow", "keras"]
    allowed = {
        "tfnlp": [],
        "tfnlp.layers": ["tensorflow", "keras"],
        "tfnlp.models": ["tensorflow", "keras"],
        "tfnlp.data": ["tensorflow_text", "tensorflow", "keras"],
    }
    program = "import importlib, sys\n"
    program += f"for room in {list(allowed)}:\n"
    program += "    importlib.import_module(room)\n"
    program += f"    print(room, *[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=SOURCE.parent,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [" ".join([room, *names]) for room, names in allowed.items()]
