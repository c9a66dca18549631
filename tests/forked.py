"""Processes that begin with TensorFlow, Keras and tfnlp imported, which takes longer than a test.

A fork server of `multiprocessing`, one for each test process, imports them once and runs nothing
with them, so that what it forks is as good as a new `python -m MODULE`.
"""

import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["tests", "tensorflow_text", "tfnlp.data", "tfnlp.hub", "tfnlp.tasks", "tfnlp.training"]
)
PIPE = "pipe"


class Forked:
    """`python -m MODULE ARGUMENTS`, or `python FILE ARGUMENTS`, with as much of the interface of
    `subprocess.Popen` as is used.

    Args:
        program: a module's name, or the `pathlib.Path` of a file; run as `__main__`.
        arguments: its command line.
        stdout, stderr: a path, or PIPE for at most one of them, which is then a text file to read.
        env: what is added to the environment.
        folder: where it runs. Default: the current one.
        executable: its `sys.executable`. Default: that of this process.
    """

    def __init__(
        self,
        program,
        arguments,
        stdout=os.devnull,
        stderr=os.devnull,
        env=None,
        folder=None,
        executable=sys.executable,
    ):
        with tempfile.TemporaryDirectory() as own:
            pipe = os.path.join(own, "pipe")
            os.mkfifo(pipe)
            places = [pipe if place == PIPE else str(place) for place in (stdout, stderr)]
            arguments = [str(argument) for argument in arguments]
            environment = {**os.environ, **(env or {})}
            folder = str(folder or os.getcwd())
            self._process = _SERVER.Process(
                target=_run, args=(program, arguments, *places, environment, folder, executable)
            )
            self._process.start()
            self.stdout = self.stderr = None
            if PIPE in (stdout, stderr):
                opened = open(pipe, encoding="utf-8")  # waits for the other end
                setattr(self, "stdout" if stdout == PIPE else "stderr", opened)

    @property
    def returncode(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutError(f"{self._process} goes on after {timeout} seconds")
        return self.returncode

    def communicate(self, timeout=None):
        said = [pipe and pipe.read() for pipe in (self.stdout, self.stderr)]
        self.wait(timeout)
        return said

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def kill(self):
        if self.returncode is None:
            self.send_signal(signal.SIGKILL)


def run_forked(script, *arguments, folder=None):
    """Runs `python SCRIPT ARGUMENTS`, or `python -c SCRIPT ARGUMENTS` if it is no path.

    Args:
        script: a path of a Python file, or its text.
        arguments: its command line.
        folder: where it runs. Default: the current one.

    Returns:
        `subprocess.CompletedProcess` with what it wrote.
    """
    with tempfile.TemporaryDirectory() as own:
        stdout, stderr, path = (pathlib.Path(own, name) for name in ("stdout", "stderr", "-c"))
        if isinstance(script, str):
            path.write_text(script, encoding="utf-8")
            script = path
        status = Forked(script, arguments, stdout, stderr, folder=folder).wait()
        said, complaint = (file.read_text(encoding="utf-8") for file in (stdout, stderr))
    return subprocess.CompletedProcess([script, *arguments], status, said, complaint)


def _run(program, arguments, stdout, stderr, environment, folder, executable):
    for number, place in ((1, stdout), (2, stderr)):
        # What another process has written to its own stdout stays.
        flag = os.O_APPEND if place.startswith("/proc/") else os.O_TRUNC
        opened = os.open(place, os.O_WRONLY | os.O_CREAT | flag, 0o666)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.executable = executable
    sys.argv = [str(program), *arguments]
    if isinstance(program, pathlib.Path):
        sys.path.insert(0, str(program.parent))
        runpy.run_path(str(program), run_name="__main__")
    else:
        sys.orig_argv = [sys.executable, "-m", program, *arguments]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
