"""The pages of the documentation, and their blocks run one after the other, small."""

import ast
import contextlib
import dataclasses
import inspect
import os
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfnlp
from tests.docs_files import provide
from tests.support import ROOT
from tfnlp import hub, models, training
from tfnlp.checkpoints import Pretrained
from tfnlp.cli import command as cli
from tfnlp.cli.options import flag_of
from tfnlp.runs.task_run import TaskRun
from tfnlp.settings.options import option

PAGES = ["README.md", "CONTRIBUTING.md", "colab/README.md"]
PAGES += sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))
FENCE = re.compile(
    r"^(?: *<!-- not run: (?P<reason>.*?) -->\n)?"
    r"(?P<indent> *)```(?P<language>.*)\n(?P<text>(?:.*\n)*?)(?P=indent)```$",
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        language: what its fence names: python, bash, json or text.
        text: its lines, without indentation of all of them.
        place: page and line.
        reason: why docs_run_test.py does not run it; None if it does.
    """

    language: str
    text: str
    place: str
    reason: str | None


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page."""
    content = (ROOT / page).read_text("utf-8")
    for found in FENCE.finditer(content):
        text = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
        line = content[: found.start("language")].count("\n") + 1
        yield Block(found["language"], text, f"{page}:{line}", found["reason"])


def commands(text: str, language: str = "bash") -> list[list[str]]:
    """Return the commands of a block: variables filled in, no comments, no brackets of options."""
    text = text.replace("\\\n", " ")
    for name, value in re.findall(r'^(\w+)="(.*)"$', text, flags=re.MULTILINE):
        text = re.sub(rf"^{name}=.*$", "", text, flags=re.MULTILINE).replace(f"${name}", value)
    lines = [line for line in text.split("\n") if language == "bash" or line.startswith("$ ")]
    found = []
    for line in lines:
        # Brackets mark optional arguments.
        line = re.sub(r"\[(-[^]]*)\]", r"\1", line.removeprefix("$ "))
        words = shlex.split(line.strip(), comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            found.append(words[:end])
            words = words[end + 1 :]
    return [command for command in found if command]


# Options that make a command small, by how it begins. It gets those that it has.
SMALL = {
    "tfnlp pretrain": "--restart --steps 2 --steps-per-call 1 --batch-size 4 --evaluate-every 2 "
    "--evaluate-batches 1 --seq-length 16 --max-tokens 24 --vocab-size 300 --min-count 1 "
    "--num-layers 1 --hidden-size 8 --num-heads 2 --intermediate-size 8 --embedding-size 8 "
    "--dimension 8 --units 8 --projection-size 4 --num-highway 1 --samples 16",
    "tfnlp finetune": "--restart --epochs 1 --batch-size 8 --accumulation 1 --limit 16 "
    "--max-length 16 --units 4 --no-buckets",
    "tfnlp finetune answer": "--max-question 8 --stride 4",
    "tfnlp examples": "--seq-length 16 --epochs 1",
    "tfnlp export": "--overwrite",
    "tfnlp embed": "--overwrite",
    "tfnlp plan": "--model bert-tiny --vocab-size 100 --length 16 --batch 8 "
    "--topology v5e:1x1 --cache plans",
    "tensorboard": "--inspect",
    "curl": "--fail --silent --show-error --retry 60 --retry-connrefused --retry-delay 1",
}
# The same where an option is given.
FEWER = {
    "--seeds": "--seeds 1",
    "--folds": "--folds 2",
    "--search": "--search 2",
    "--workers": "--workers 2",
}
# Families whose toy of `tests.made` stands for what a page pretrains: those that can read any text.
COPIED = (
    "nnlm", "elmo", "bert", "distilbert", "albert", "electra", "seq2seq", "transformer",
)  # fmt: skip
# Options with which it is trained.
TRAINED = {"--pack", "--batch-tokens", "--from", "--examples", "--engine"}
# Servers that a page has started.
SERVERS = []
# What stands in a page, and what is run in its place.
STAND_INS = {
    "RUN_OR_FILE": "vectors.txt",
    "keras_hub:bert_tiny_en_uncased": "keras_hub:preset-folder",
    " --samples 8192": "",  # of an ELMo; the toy is a BERT
    "10_000": "2",
    "sentence-transformers/all-MiniLM-L6-v2": "org/name",
    " --vocab gpt2": "",  # the toy's vocabulary lacks most bytes
    "https://tfhub.dev/...": "bert/encoder",
    "hf://sentence-transformers/all-MiniLM-L6-v2": "hf://org/name",
}


_SIZES = {
    "--num-layers", "--hidden-size", "--num-heads", "--intermediate-size", "--vocab-size",
    "--units", "--projection-size", "--num-highway", "--min-count",
}  # fmt: skip
_JAX = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}


class Page:
    """A page whose blocks are run one after the other in the current folder.

    What `tfnlp pretrain` makes, and `tfnlp export` of it without options, is a copy of what
    `tests.made` has made: the command is parsed and not run.

    Args:
        names: the variables of the page's programs, which grow.
        folder: where files are provided.
        models: see `provide`.
        made: the fixture.
    """

    def __init__(
        self, names: dict[str, Any], folder: pathlib.Path, models: pathlib.Path, made: Callable
    ) -> None:
        self.names, self.folder, self.models, self.made = names, folder, models, made
        self.known: dict[str, tuple[str, str]] = {}  # what was copied: its family and its part

    def run(self, block: Block) -> None:
        """Run a block of the language bash or python."""
        text = block.text
        for old, new in STAND_INS.items():
            text = text.replace(old, new)
        if block.language == "python":
            tree = ast.parse(text)
            provide(_strings(tree), self.folder, self.models)
            with _eagerly():
                exec(compile(tree, block.place, "exec"), self.names)
            return
        for command in commands(text):
            if self._copied(command):
                continue
            provide(_read(command), self.folder, self.models)
            if command[1] == "evaluate":
                family, _ = self.known.get(command[command.index("--model") + 1], ("elmo", ""))
                encoder = family not in ("elmo", "nnlm", "seq2seq", "transformer")
                command += ["--seq-length", "16"] if encoder else []
            _run_command(small(command))

    def _copied(self, command: list[str]) -> bool:
        """Copy what is made already; return whether it is."""
        options = dict(zip(command, command[1:], strict=False))
        output, model = options.get("--output"), self.known.get(options.get("--model", ""))
        given = {word for word in command if word.startswith("--")}
        part = None
        if command[:2] == ["tfnlp", "pretrain"]:
            if command[2] in COPIED and not given & TRAINED:
                part = command[2], "run"
        elif command[:2] == ["tfnlp", "export"] and model and given <= {"--model", "--output"}:
            part = model[0], "exported"
        if part is None:
            return False
        cli.parse(command)
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(getattr(self.made(part[0]), part[1]), output)
        self.known[output] = part
        return True


@contextlib.contextmanager
def _eagerly() -> Iterator[None]:
    """Trace no graphs for the few steps of a toy: that takes longer than the steps."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def objects(page: str, folder: pathlib.Path, toys: pathlib.Path) -> dict[str, Any]:
    """Return the variables of a page, by their names.

    Args:
        page: its path in the repository.
        folder: where the page is run.
        toys: see `tests.docs_files.provide`.
    """
    found = {"tfnlp": tfnlp, "keras": keras, "np": np, "tf": tf, "training": training}
    found |= {"hub": tfnlp.hub, "option": option, "dataset": dataset()}
    more = {"docs/keras_hub.md": _keras_hub, "docs/reuse.md": _reuse}.get(page)
    return found | (more(folder, toys) if more else {})


def _keras_hub(folder: pathlib.Path, toys: pathlib.Path) -> dict[str, Any]:
    keras_hub = pytest.importorskip("keras_hub")
    provide(["preset-folder"], folder, toys)
    classifier = keras_hub.models.BertTextClassifier
    return {
        "task": keras_hub.models.BertMaskedLM.from_preset("preset-folder"),
        "classifier": classifier.from_preset("preset-folder", num_classes=2),
    }


def _reuse(folder: pathlib.Path, toys: pathlib.Path) -> dict[str, Any]:
    """A BERT pair in `bert`, its encoder as an archive, and models."""
    run = tfnlp.load(toys / "bert")
    run.export("bert")
    with tarfile.open("bert_encoder.tar.gz", "w:gz") as archive:
        archive.add("bert/encoder", arcname=".")
    tokenizer = tf.saved_model.load("bert/preprocessor")
    ids = tokenizer(tf.constant(["the dog ran"]))
    # Of one length, as LiteRT wants it.
    inputs = {name: keras.Input(x.shape[1:], dtype="int32", name=name) for name, x in ids.items()}
    pooled = run.encoder(inputs)["pooled_output"]
    outputs = {"pooled": pooled, "probabilities": layers.Dense(3, activation="softmax")(pooled)}
    return {
        "dict_of_ids": ids,
        "tokenizer_module": tokenizer,
        "model": keras.Model(inputs, outputs),
        "mlm_model": models.bert_pretrainer(run.encoder),
        "task": _keras_hub(folder, toys)["classifier"],
    }


def dataset() -> Any:
    """Return batches for the models that programs make."""
    rows = tf.zeros((8, 4)), tf.zeros(8, tf.int32)
    return tf.data.Dataset.from_tensor_slices(rows).repeat().batch(4, drop_remainder=True)


def small(command: list[str]) -> list[str]:
    """Return a command with the options that make it small."""
    added = [option for given, option in FEWER.items() if given in command]
    known = None
    if command[0] == "tfnlp":
        configs = getattr(cli.parse(command), "config_classes", ())
        known = {flag_of(f) for config in configs for f in dataclasses.fields(config)} or None
    for start, options in SMALL.items():
        if " ".join(command).startswith(start):
            added += [f"--{option}".strip() for option in f" {options}".split(" --")[1:]]
    if {"--from", "--teacher"} & {*command}:  # their sizes are those of the other model
        added = [x for x in added if x.split()[0] not in _SIZES]
    if {"--pack", "--batch-tokens"} & {*command}:  # batches of their own kind
        added = [x for x in added if x != "--no-buckets"]
    if {"--examples", "--vocab"} & {*command}:
        added = [x for x in added if x.split()[0] != "--vocab-size"]
    if "finetune" in command and "--features" not in command:
        added = [x for x in added if x.split()[0] != "--units"]
    kept = [x for x in added if known is None or x.split()[0] in known]
    return [*command, *" ".join(kept).split()]


def small_settings(command: str, kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the same as keyword arguments of `tfnlp.pretrain` or `tfnlp.finetune`."""
    words = ["tfnlp", command, kind, "--output", "x"]
    words += ["--model", "x", "--train", "x"] if command == "finetune" else []
    words += [f"--{name}=1" for name in given if f"--{name}" in FEWER]
    added = small(words)[len(words) :]
    before = vars(cli.parse(words))
    after = vars(cli.parse([*words, *added]))
    names = {name for name in after if f"--{name.replace('_', '-')}" in added}
    # All rows of a program: the first ones may be of one class.
    return {n: after[n] for n in names - {"limit"} if n not in before or n in given}


def small_functions() -> list[tuple[Any, str, Callable]]:
    """Return the functions that programs call, made small: (owner, name, function)."""

    def train(command: str) -> Callable:
        function = getattr(tfnlp, command)

        def call(kind: str, *arguments: Any, **more: Any) -> Any:
            return function(kind, *arguments, **{**more, **small_settings(command, kind, more)})

        return call

    def export(function: Callable) -> Callable:
        signature = inspect.signature(function)

        def call(*arguments: Any, **more: Any) -> Any:
            bound = signature.bind(*arguments, **more)
            named = "overwrite" in signature.parameters
            (bound.arguments if named else bound.arguments.setdefault("settings", {})).update(
                overwrite=True
            )
            return function(*bound.args, **bound.kwargs)

        return call

    found = [(tfnlp, name, train(name)) for name in ("pretrain", "finetune")]
    for owner in (hub, Pretrained, TaskRun):
        found.append((owner, "export", export(owner.export)))
    return found


def _strings(tree: ast.AST) -> set[str]:
    written = {
        x.value
        for x in ast.walk(tree)
        if isinstance(x, ast.keyword) and x.arg in ("output", "directory")
    }
    constants = (x for x in ast.walk(tree) if isinstance(x, ast.Constant) and x not in written)
    return {x.value.removeprefix("keras_hub:") for x in constants if isinstance(x.value, str)}


def _read(command: list[str]) -> list[str]:
    """Return the words of a command but for the name of what it writes."""
    pairs = zip([""] + command, command, strict=False)
    written = {word for before, word in pairs if before in ("--output", "--json")}
    return [word.removeprefix("keras_hub:") for word in command if word not in written]


def _run_command(command: list[str]) -> None:
    program, *arguments = command
    if "--port" in command or command[:2] == ["tfnlp", "serve"]:
        SERVERS.append(subprocess.Popen(_found(command), stdin=subprocess.DEVNULL))
    elif program == "tfnlp" and ("jax" not in arguments or "plan" in arguments):
        with _eagerly():
            assert cli.main(cli.parse(command)) == 0, shlex.join(command)
    elif program == "tfnlp":
        _process([sys.executable, "-m", *command], _JAX)
    elif program == "python" and arguments[0] == "-m":
        _program(lambda: runpy.run_module(arguments[1], run_name="__main__"), arguments[1:])
    elif program == "python" and arguments[0].endswith(".py"):
        path = str(ROOT / arguments[0])
        _program(lambda: runpy.run_path(path, run_name="__main__"), arguments)
    else:
        _process(_found(command), {})


def _found(command: list[str]) -> list[str]:
    """Return a command with this Python, and with the path of a program of the repository."""
    program, *arguments = command
    if program == "python" and arguments[0].endswith(".py"):
        return [sys.executable, str(ROOT / arguments[0]), *arguments[1:]]
    start = {"python": [sys.executable], "tfnlp": [sys.executable, "-m", "tfnlp"]}
    return [*start.get(program, [program]), *arguments]


def _program(call: Callable, arguments: list[str]) -> None:
    with mock.patch.object(sys, "argv", arguments):
        try:
            call()
        except SystemExit as end:
            assert not end.code, shlex.join(arguments)


def _process(command: list[str], env: dict[str, str]) -> None:
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": path, **env}
    )
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr[-3000:]}"
