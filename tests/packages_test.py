"""What each package may import, and that importing one stays light."""

import ast
import functools
import pathlib

import pytest

import tfnlp
from tests.support import run_python

SOURCE = pathlib.Path(tfnlp.__file__).parent
# From the ground up: a package imports only from those before it.
ORDER = [
    "settings", "layers", "models", "text", "data", "objectives", "tasks", "training",
    "checkpoints", "hub", "published", "formats", "families", "runs", "plan", "show", "serving",
    "cli",
]  # fmt: skip


def files_of(package: str) -> list[pathlib.Path]:
    """Return the Python files of a package or module of tfnlp."""
    module = SOURCE / f"{package}.py"
    return sorted((SOURCE / package).glob("**/*.py")) or [module] * module.exists()


@functools.cache
def imported(path: pathlib.Path) -> list[str]:
    """Return the names of all that a file imports, at its top or inside functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


@pytest.mark.parametrize("package", ["layers", "models"])
def test_layers_and_models_import_keras_only(package):
    roots = {name.split(".")[0] for file in files_of(package) for name in imported(file)}
    foreign = {"tensorflow", "tensorflow_text", "tensorflow_hub", "jax", "torch", "tf_keras"}
    assert "keras" in roots and not roots & foreign


@pytest.mark.parametrize("package", ORDER)
def test_packages_import_only_from_those_before_them(package):
    later = ORDER[ORDER.index(package) + 1 :]
    for file in files_of(package):
        for name in imported(file):
            wrong = [p for p in later if f"{name}.".startswith(f"tfnlp.{p}.")]
            assert not wrong, f"{file.relative_to(SOURCE)} imports {name}"


def test_the_command_line_alone_parses_arguments():
    for file in sorted(set(SOURCE.glob("**/*.py")) - {*files_of("cli"), *files_of("__main__")}):
        wrong = {"argparse", "absl"} & {name.split(".")[0] for name in imported(file)}
        assert not wrong, file.relative_to(SOURCE)


def test_settings_need_nothing_heavy():
    names = [f"tfnlp.settings.{path.stem}" for path in files_of("settings")]
    program = "import importlib, sys\n"
    program += f"for name in {names}:\n    importlib.import_module(name)\n"
    program += "print({'numpy', 'keras', 'tensorflow'} & set(sys.modules), *sys.modules)"
    heavy, *found = run_python(program).stdout.split()
    ours = {name.split(".")[1] for name in found if name.startswith("tfnlp.")}
    assert heavy == "set()" and ours == {"settings", "keras_registration"}


@pytest.mark.slow
def test_import_stays_light():
    """One process imports one package after the other."""
    heavy = ["tensorflow_datasets", "tensorflow_hub", "tensorflow_text", "tensorflow", "keras"]
    allowed = {
        "tfnlp": [],
        "tfnlp.runs.front_door": [],
        "tfnlp.cli.command": [],
        "tfnlp.layers": ["tensorflow", "keras"],
        "tfnlp.models": ["tensorflow", "keras"],
        "tfnlp.data": ["tensorflow_text", "tensorflow", "keras"],
    }
    program = "import importlib, sys\n"
    program += f"for package in {list(allowed)}:\n"
    program += "    importlib.import_module(package)\n"
    program += f"    print(package, *[name for name in {heavy} if name in sys.modules])"
    lines = run_python(program).stdout.splitlines()
    assert lines == [" ".join([package, *names]) for package, names in allowed.items()]
