"""Golden files, data sets beside the repository, and Python processes for tests."""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDENS = ROOT / "tests" / "goldens"
SHARED = pathlib.Path(os.environ.get("TFNLP_SHARED_DATA", ROOT.parent / "shared" / "data"))
# Environment of a process with JAX that compiles many small programs, which takes most of its time.
QUICK_JAX = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_backend_optimization_level=0"}

# Runs scripts one after another, as `python SCRIPT` does, but every import of tfnlp fails.
_WITHOUT_TFNLP = """
import contextlib, gc, io, json, os, sys, traceback
sys.modules["tfnlp"] = None
answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    name, source, arguments, folder = json.loads(line)
    sys.argv, home, modules = [name, *arguments], os.getcwd(), dict(sys.modules)
    os.chdir(folder)
    said, error, status = io.StringIO(), "", 0
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(source, name, "exec"), {"__name__": "__main__"})
    except SystemExit as stop:
        status = stop.code or 0
    except BaseException:
        status, error = 1, traceback.format_exc()
    os.chdir(home)
    for blocked in [name for name, module in sys.modules.items() if module is None]:
        if modules.get(blocked) is not None:
            sys.modules[blocked] = modules[blocked]
        elif blocked not in modules:
            del sys.modules[blocked]
    gc.collect()
    print(json.dumps([status, said.getvalue(), error]), file=answers, flush=True)
"""


def golden(name: str) -> pathlib.Path:
    """Return the path of a golden file or folder that ships with the tests."""
    path = GOLDENS / name
    if not path.exists():
        raise FileNotFoundError(f"golden file {path} is missing from the checkout")
    return path


def shared_data(name: str) -> pathlib.Path:
    """Return the path of a data set beside the checkout; skip the test where it is absent."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs the data set {name} (set TFNLP_SHARED_DATA)")
    return path


def run_python(
    script: pathlib.Path | str,
    *arguments: Any,
    folder: os.PathLike | None = None,
    env: dict[str, str] | None = None,
    without_tfnlp: bool = False,
    check: bool = True,
) -> subprocess.CompletedProcess:
    """Run `python SCRIPT ARGUMENTS` in a new interpreter and wait for it.

    A new interpreter that imports TensorFlow takes 5 to 10 seconds: mark such tests `slow`. One
    interpreter, started once, runs all scripts that have no tfnlp and no `env` of their own.

    Args:
        script: the path of a Python file, or Python code.
        arguments: its command line.
        folder: where it runs. Default: the current folder.
        env: variables to add to the environment.
        without_tfnlp: whether importing tfnlp fails in it.
        check: whether to fail the test, with the end of stderr, if it exits with another status
            than 0.

    Returns:
        The finished process; its `stdout` and `stderr` are strings.
    """
    arguments = [str(argument) for argument in arguments]
    name, source = "-c", script
    if isinstance(script, pathlib.Path):
        name, source = str(script), script.read_text(encoding="utf-8")
    if without_tfnlp and env is None:
        done = _run_without_tfnlp(name, source, arguments, os.fspath(folder or os.getcwd()))
    else:
        command = ["-c", source] if name == "-c" else [name]
        if without_tfnlp:
            command = ["-P", "-c", 'import sys; sys.modules["tfnlp"] = None\n' + source]
        done = subprocess.run(
            [sys.executable, *command, *arguments],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, **(env or {})},
        )
    if check and done.returncode:
        pytest.fail(f"exit status {done.returncode}: {done.stderr[-3000:]}")
    return done


@functools.cache
def _process_without_tfnlp() -> subprocess.Popen:
    """Start the process that ends with this one, whose end its standard input tells it."""
    command, pipe = [sys.executable, "-P", "-c", _WITHOUT_TFNLP], subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )


def _run_without_tfnlp(
    name: str, source: str, arguments: list[str], folder: str
) -> subprocess.CompletedProcess:
    process = _process_without_tfnlp()
    process.stdin.write(json.dumps([name, source, arguments, folder]) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        _process_without_tfnlp.cache_clear()
        pytest.fail(f"the process that ran {name} without tfnlp ended with {process.wait()}")
    return subprocess.CompletedProcess([name, *arguments], *json.loads(answer))


def start_python(
    *arguments: Any,
    stdin: int | IO | None = None,
    stdout: int | IO | None = None,
    stderr: int | IO | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.Popen:
    """Start `python ARGUMENTS` in the folder of the repository and do not wait for it.

    Args:
        arguments: the command line, such as `"-m", "tfnlp", "pretrain"`.
        stdin, stdout, stderr: as `subprocess.Popen` takes them; pipes carry text.
        env: variables to add to the environment.
    """
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
    )


def shown_on(page: pathlib.Path) -> dict[str, Any]:
    """Return what a run's page shows, the data within it."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text())
    return json.loads(data[1])


def kill_at_checkpoint(process: subprocess.Popen, run: pathlib.Path) -> None:
    """Kill a training, as SIGKILL does, when its run has a checkpoint."""
    while not list((run / "checkpoints").glob("step-*")):
        assert process.poll() is None, "the training ended without a checkpoint"
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL


# Locks a folder, says so, and waits for the end of its input.
_HOLD = """
import sys
import time
from tfnlp.locks import locked
with locked(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holding(folder: os.PathLike) -> Iterator[subprocess.Popen]:
    """Yield a process that has locked a folder; it is killed when the block ends."""
    pipe = subprocess.PIPE
    with start_python("-c", _HOLD, folder, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()


def traced(encoder):
    """Return an ELMo encoder as a function of character ids, traced once.

    Eager calls take 30 times as long.
    """
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, None, 50], "int32")], autograph=False)
    def outputs(ids):
        return encoder({"character_ids": ids})

    return outputs
