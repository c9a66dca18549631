"""Every block of code in README.md and docs/ can be given as it stands, or says that it is `text`.

`python`: it compiles; what it imports is there; tfnlp has the names, and its functions the
arguments, that it uses; so have the runs and models that these functions return. `bash`: the
commands of tfnlp parse, programs of the repository are there and have the options. `json`: a value,
or one in each line. `text`: what was printed, where lines after `$ ` are commands, and drawings.
What is run: docs_run_test.py.
"""

import ast
import importlib
import inspect
import json
import pathlib
import re

import keras
import pytest

from tests.docs_blocks import FENCE, PAGES, blocks, commands
from tests.support import ROOT

# Programs that are not of this repository.
_OTHERS = {"curl", "tensorboard", "peer/bin/pip", "pre-commit", "openssl", "umask"}
# Names that blocks use without importing them.
_KNOWN = ("tfnlp", "convert", "hub", "layers", "models", "training")


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_language(page):
    text = (ROOT / page).read_text("utf-8")
    assert {block.language for block in blocks(page)} <= {"python", "bash", "json", "text"}
    outside = FENCE.sub("", text)
    assert "```" not in outside
    # Code that is only indented has no language. (In a list such lines are the item's text.)
    paragraphs = re.split(r"\n\s*\n", outside)
    for before, after in zip(paragraphs, paragraphs[1:], strict=False):
        is_list = re.search(r"^ *(- |\d+\. )", before, re.MULTILINE)
        assert not after.startswith("    ") or is_list, after


@pytest.mark.parametrize("page", PAGES)
def test_commands_can_be_given(page):
    for block in blocks(page):
        if block.language == "json":
            try:
                json.loads(block.text)
            except json.JSONDecodeError:
                for line in block.text.splitlines():
                    json.loads(line)
        if block.language in ("bash", "text"):
            for command in commands(block.text, block.language):
                check_command(command)


@pytest.mark.parametrize("page", PAGES)
def test_programs_use_what_is_there(page):
    programs = [block.text for block in blocks(page) if block.language == "python"]
    names = {
        name: importlib.import_module(f"tfnlp.{name}".replace("tfnlp.tfnlp", "tfnlp"))
        for name in _KNOWN
    }
    for program in programs:
        assert not complaints(ast.parse(program), names), program


# Shell.


def check_command(command):
    """Fail for a command that does not exist, or not with these options."""
    program, *arguments = command
    if program == "taskset":
        return check_command(command[3:])
    if program == "tfnlp":
        if "..." not in arguments:
            from tfnlp.cli import parse

            parse(command)  # exits where an option is unknown
    elif program.endswith("python") and arguments[:1] == ["-m"] and arguments[1] != "venv":
        if arguments[1] != "pytest":
            check_options(ROOT / f"{arguments[1].replace('.', '/')}.py", arguments[2:])
    elif program == "python" and arguments[0].endswith(".py"):
        check_options(ROOT / arguments[0], arguments[1:])
    elif program == "pip":
        extras = (ROOT / "setup.py").read_text("utf-8")
        for names in re.findall(r"\.\[([\w,-]+)\]", " ".join(arguments)):
            assert all(f'"{name}": ' in extras for name in names.split(",")), command
    elif program == "make":
        makefile = (ROOT / "Makefile").read_text("utf-8").replace("$(VENV)", ".venv")
        assert all(f"\n{target}:" in makefile for target in arguments), command
    else:
        assert program.strip("();") in _OTHERS or program == "python", command


def check_options(path, arguments):
    text = path.read_text("utf-8")
    for option in arguments:
        if option.startswith("--"):
            made_of_a_name = 'f"--{' in text and f'"{option[2:]}"' in text
            assert f'"{option}"' in text or made_of_a_name, f"{path.name} has no {option}"


# Python.


def complaints(tree, names):
    """Return what a program uses that is not there; `names` are what it knows, and grow."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = importlib.import_module(alias.name)
                names[alias.asname or alias.name.partition(".")[0]] = module
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            found += [f"{node.module}.{a.name}" for a in node.names if not hasattr(module, a.name)]
            names.update({a.asname or a.name: getattr(module, a.name, None) for a in node.names})
    returned = {}  # variables that hold what a function of tfnlp returned
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            function = ast.unparse(node.value.func)
            if function in ("tfnlp.load", "tfnlp.pretrain", "tfnlp.finetune"):
                returned[ast.unparse(node.targets[0])] = function
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if owner in returned:
                missing = node.attr not in _attributes()
            else:
                owner = names.get(owner)
                ours = inspect.ismodule(owner) and owner.__name__.startswith("tfnlp")
                missing = ours and not hasattr(owner, node.attr)
            found += [ast.unparse(node)] * missing
        elif isinstance(node, ast.Call):
            found += _unknown_arguments(node, names)
    return found


def _attributes():
    """Return the names that runs, models, modules and indices of vectors have."""
    from tfnlp.convert import Pretrained
    from tfnlp.runs.module import Module
    from tfnlp.runs.search_index import Index
    from tfnlp.runs.task_run import TaskRun

    names = set()
    for kind in (Pretrained, TaskRun, Module, Index):
        source = pathlib.Path(inspect.getsourcefile(kind)).read_text("utf-8")
        names |= {*dir(kind), *re.findall(r"self\.(\w+)", source)}
        names |= set(getattr(kind, "__dataclass_fields__", ()))
    return names


def _unknown_arguments(call, names):
    """Return the keywords of a call that a function or class of tfnlp does not take."""
    owner, _, name = ast.unparse(call.func).rpartition(".")
    function = getattr(names.get(owner), name, None) if owner else names.get(name)
    if not getattr(function, "__module__", "").startswith("tfnlp"):
        return []
    taken = inspect.signature(function).parameters
    known = set(taken)
    if function.__name__ in ("pretrain", "finetune") and isinstance(call.args[0], ast.Constant):
        import tfnlp

        known |= set(tfnlp.settings(call.args[0].value))
    elif any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        if not (inspect.isclass(function) and issubclass(function, keras.layers.Layer)):
            return []
        known |= set(inspect.signature(keras.layers.Layer).parameters)
    return [f"{name}({k.arg}=)" for k in call.keywords if k.arg and k.arg not in known]


@pytest.mark.parametrize(
    "program",
    [
        "from tfnlp import nothing",
        "layers.Nothing(1)",
        "from tfnlp.layers import CRF\nCRF(nothing=1)",
        "tfnlp.pretrain('bert', nothing=1)",
        "run = tfnlp.load('run')\nrun.nothing",
    ],
)
def test_what_is_not_there_is_found(program):
    import tfnlp
    from tfnlp import layers

    assert len(complaints(ast.parse(program), {"tfnlp": tfnlp, "layers": layers})) == 1


@pytest.mark.parametrize(
    "command",
    [
        "tfnlp pretrain bert --nothing 1",
        "python -m benchmarks.ngram --nothing",
        "python -m benchmarks.nothing",
        "pip install -e '.[nothing]'",
        "make nothing",
        "nothing",
    ],
)
def test_a_command_that_can_not_be_given_is_found(command):
    (words,) = commands(command, "bash")
    with pytest.raises((AssertionError, FileNotFoundError, SystemExit)):
        check_command(words)
