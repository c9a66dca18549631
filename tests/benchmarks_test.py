"""The scripts of `benchmarks/`: they load, take turns, and compare what they should."""

import importlib
import pathlib

import pytest

import benchmarks
from benchmarks import turns

SCRIPTS = sorted(path.stem for path in pathlib.Path(benchmarks.__path__[0]).glob("[!_]*.py"))
CHILD = """
import json, sys
from benchmarks.turns import Turns
name, steps, order = json.loads(sys.argv[1])
print("noise")
turns = Turns(2)
for step in range(steps):
    open(order, "a").write(name)
    turns.stepped(1, 10)
turns.report()
turns.wait()
turns.report(done=True, name=name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_load(name):
    try:
        importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] in ("tfnlp", "benchmarks"):
            raise
        pytest.skip(f"needs {error.name}")


def test_processes_take_turns(tmp_path):
    log, order = tmp_path / "log", tmp_path / "order"
    (tmp_path / "benchmarks").mkdir()
    # A module of the package that is nowhere else.
    (tmp_path / "benchmarks" / "child.py").write_text(CHILD)
    script = f"import benchmarks; benchmarks.__path__.append({str(tmp_path / 'benchmarks')!r})"
    (tmp_path / "sitecustomize.py").write_text(script)
    path = f"{tmp_path}:{turns.ROOT}"
    children = [
        turns.Child("child", [name, steps, str(order)], log, PYTHONPATH=path)
        for name, steps in (("a", 6), ("b", 3))
    ]
    turns.alternate(children)
    assert order.read_text() == "aabbbaaaa"
    assert [child.last["name"] for child in children] == ["a", "b"]
    assert [turn["examples"] for turn in children[1].turns] == [20, 10, 0]
    with pytest.raises(OSError, match="log"):
        turns.alternate([turns.Child("nothing", {}, log)])
