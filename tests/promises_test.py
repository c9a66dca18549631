"""The promises of `Raises` in docstrings: each class named there is raised somewhere below."""

import ast
import builtins
import functools
import importlib
import inspect
import pathlib
import re

import keras
import numpy as np
import pytest

import tfnlp
from tests.promises_models import MODELS
from tests.promises_table import LAYERS
from tests.promises_training import TASKS, TRAINING

SOURCE = pathlib.Path(tfnlp.__file__).parent
CLAUSE = re.compile(r"[A-Z]\w+(, [A-Z]\w+)*(, \.\.\.)?: \S")
_FILES = "FileNotFoundError IsADirectoryError FileExistsError OSError"
# What calls of other libraries raise, by the name of the function.
FOREIGN = {
    **dict.fromkeys(("open", "GFile", "stat", "read_bytes", "read_text", "getsize"), _FILES),
    **dict.fromkeys(("makedirs", "mkdir", "rename", "replace", "mkdtemp", "rmtree"), _FILES),
    **dict.fromkeys(("loads", "int", "float", "decode", "literal_eval"), "ValueError"),
    "decode": "UnicodeDecodeError ValueError",
    "import": "ImportError",
}

# Promises that this test can't follow, and why they hold.
KEPT_ELSEWHERE = {
    ("tfnlp.cli.options.config_of", "ValueError"): "the config's class is an argument",
    ("tfnlp.convert.pretrained.Pretrained.export", "OSError"): "the family's function writes",
    ("tfnlp.convert.formats.npy_files.npy_header", "EOFError"): "NumPy raises it",
    ("tfnlp.convert.formats.torch_pickle.read_pickle", "IndexError"): "an empty stack's pop",
}


class Code:
    """Functions and classes of some modules, what each one raises, and what it mentions.

    Attributes:
        nodes: dict of "module.name" or "module.Class.name" to the node.
        promises: dict of such names to the lines of their `Raises`.
    """

    def __init__(self, sources: dict[str, str]):
        self.nodes, self.names, self.methods, self.classes = {}, {}, {}, {}
        for module, text in sources.items():
            self.names[module] = {}
            self._read(module, module, ast.parse(text))
        docs = {key: ast.get_docstring(node) or "" for key, node in self.nodes.items()}
        self.promises = {key: section(doc) for key, doc in docs.items() if "Raises:" in doc}

    def _read(self, module, prefix, tree):
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                key = f"{prefix}.{node.name}"
                self.nodes[key] = node
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name] = key
                if prefix == module:
                    self.names[module][node.name] = key
                else:
                    self.methods.setdefault(node.name, []).append(key)
                self._read(module, key, node)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    name = alias.asname or alias.name
                    self.names[module].setdefault(name, f"{node.module}.{alias.name}")
            else:
                self._read(module, prefix, node)

    def found(self, name: str) -> str | None:
        """Return where a dotted name is defined; a package's names lead to their modules."""
        for _ in range(3):
            if name in self.nodes:
                return name
            module, _, last = name.rpartition(".")
            name = self.names.get(module, {}).get(last, "")
        return None

    def module_of(self, key: str) -> str:
        while key not in self.names:
            key = key.rpartition(".")[0]
        return key

    def parents(self, name: str, module: str) -> set[str]:
        """Return the names of a class of errors and of those that it is derived from."""
        known = getattr(builtins, name, None)
        if isinstance(known, type) and issubclass(known, BaseException):
            return {c.__name__ for c in known.__mro__}
        key = self.found(f"{module}.{name}") or self.classes.get(name, "")
        bases = getattr(self.nodes.get(key), "bases", None)
        if bases is None:
            return set()
        return {name}.union(*(self.parents(ast.unparse(b), self.module_of(key)) for b in bases))

    def raised(self, key: str) -> set[str]:
        """Return the classes of errors, with their bases, that a function's call graph raises."""
        classes, seen, queue = set(), set(), [key]
        while queue:
            key = queue.pop()
            if key not in seen:
                seen.add(key)
                own, called = self.direct(key)
                classes |= own
                queue += called
        return classes

    @functools.cache  # noqa: B019
    def direct(self, key: str) -> tuple[set[str], list[str]]:
        """Return what a function raises itself, and the functions that it mentions."""
        module, owner = self.module_of(key), key.rpartition(".")[0]
        classes, called = set(), []
        for node in ast.walk(self.nodes[key]):
            # A function that makes an error to return it, does so for a caller that raises it.
            made = node.func if isinstance(node, ast.Call) else getattr(node, "exc", None)
            if isinstance(made, ast.Name):
                classes |= self.parents(made.id, module)
            if isinstance(node, ast.Import | ast.ImportFrom):
                classes.add("ImportError")
            elif isinstance(node, ast.Name | ast.Attribute):
                name = node.id if isinstance(node, ast.Name) else node.attr
                found = self._meant(node, module, owner)
                called += found
                for error in () if found else FOREIGN.get(name, "").split():
                    classes |= self.parents(error, module)
        return classes, called

    def _meant(self, node: ast.Name | ast.Attribute, module: str, owner: str) -> list[str]:
        """Return the functions that `name` or `x.name` may be."""
        if isinstance(node, ast.Name):
            found = self.found(f"{module}.{node.id}")
            return [found] if found else []
        base = node.value.id if isinstance(node.value, ast.Name) else ""
        base = self.names[module].get(base, "") if base != "self" else owner
        found = self.found(f"{base}.{node.attr}")
        methods = [found] if found else self.methods.get(node.attr, [])
        return methods if len(methods) < 4 else []  # of any class, for a name that few have


def section(doc: str) -> list[str]:
    """Return the entries of a docstring's `Raises`, each as one line."""
    lines = doc.split("Raises:\n", 1)[1].split("\n\n")[0].splitlines()
    entries = []
    for line in lines:
        if line.startswith("     ") and entries:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line.removeprefix("    "))
    return entries


def broken(code: Code) -> list[str]:
    """Return the promises that are malformed, name no error, or that nothing keeps."""
    found = []
    for key, entries in code.promises.items():
        raised = code.raised(key)
        for entry in entries:
            if not CLAUSE.match(entry):
                found.append(f"{key}: {entry!r} is not `Class: condition`")
                continue
            for name in entry.split(":")[0].removesuffix(", ...").split(", "):
                if not code.parents(name, code.module_of(key)):
                    found.append(f"{key}: {name} is no class")
                elif name not in raised and (key, name) not in KEPT_ELSEWHERE:
                    found.append(f"{key}: nothing below raises {name}")
    return found


@functools.cache
def tfnlp_code() -> Code:
    files = sorted(SOURCE.glob("**/*.py"))
    names = [".".join(f.relative_to(SOURCE.parent).with_suffix("").parts) for f in files]
    pairs = zip(names, files, strict=True)
    return Code({n.removesuffix(".__init__"): f.read_text(encoding="utf-8") for n, f in pairs})


def test_promises_are_kept():
    assert broken(tfnlp_code()) == []


KEPT = '''
class TooLong(ValueError):
    pass

def checked(x):
    if x:
        raise TooLong("x")

def f(x):
    """Do.

    Raises:
        ValueError: for x,
            or another.
        OSError: if it can't be read.
    """
    return checked(open(x))
'''


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("return checked(open(x))", "return open(x)", "a.f: nothing below raises ValueError"),
        ("(open(x))", "(x)", "a.f: nothing below raises OSError"),
        ("ValueError: for", "ValueErorr: for", "a.f: ValueErorr is no class"),
        ("ValueError: for x", "for x", "a.f: 'for x, or another.' is not `Class: condition`"),
    ],
)
def test_broken_promises_are_found(old, new, message):
    assert broken(Code({"a": KEPT})) == []
    assert message in broken(Code({"a": KEPT.replace(old, new)}))


TABLES = {"layers": LAYERS, "models": MODELS, "tasks": TASKS, "training": TRAINING}
CASES = {
    f"{package}.{name}": clauses
    for package, table in TABLES.items()
    for name, clauses in table.items()
}


@pytest.mark.parametrize("package", ["layers", "models"])
def test_all_promises_of_layers_and_models_have_cases(package):
    public = importlib.import_module(f"tfnlp.{package}").__all__
    code = tfnlp_code()
    keys = [key.split(".")[3:] for key in code.promises if key.startswith(f"tfnlp.{package}.")]
    assert {f"{package}.{'.'.join(key)}" for key in keys if key and key[0] in public} <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_refusals_name_the_argument(name):
    """Every clause of the docstring has cases, and every clause here is in the docstring."""
    module, *path = name.split(".")
    found = functools.reduce(getattr, path, importlib.import_module(f"tfnlp.{module}"))
    entries = section(inspect.getdoc(found))
    (text,) = (e.removeprefix("ValueError:") for e in entries if e.startswith("ValueError:"))
    for clause in CASES[name]:
        assert clause in text
        text = text.replace(clause, "", 1)
    assert not re.sub(r"\b(for|if|or|and)\b|[\s,;.]", "", text), f"no cases for {text!r}"
    for clause, cases in CASES[name].items():
        for said, call in cases:
            takes_tensors = "x" in inspect.signature(call).parameters
            for x in ([arrays], [symbols]) if takes_tensors else [[]]:
                with pytest.raises(ValueError) as refusal:
                    call(*x)
                assert said in str(refusal.value), clause


def arrays(shape, dtype="float32"):
    return np.zeros(shape, dtype)


def symbols(shape, dtype="float32"):
    return keras.KerasTensor(shape, dtype)
