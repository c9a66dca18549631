"""Scripts that have TensorFlow and nothing of ours: what reads an export as its users do.

`run_alone` asks a process of its own, one for each test process, which imported TensorFlow alone
(without Keras and tensorflow_text) and did nothing with it; each script runs in a fork of that. A
new interpreter for each would load TensorFlow again, which takes longer than most scripts.
"""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback


def run_alone(script, *arguments, folder=None):
    """Runs `python SCRIPT ARGUMENTS`, or `python -c SCRIPT ARGUMENTS` if it is no path.

    Args:
        script: a path of a Python file, or its text.
        arguments: its command line.
        folder: where it runs. Default: a new one.

    Returns:
        What it printed.

    Raises:
        AssertionError: if it did not end well; with the end of what it wrote to stderr.
    """
    with tempfile.TemporaryDirectory() as own:
        files = [os.path.join(own, name) for name in ("stdout", "stderr")]
        asked = {
            "path": str(script) if isinstance(script, pathlib.Path) else None,
            "code": script if isinstance(script, str) else None,
            "arguments": [str(argument) for argument in arguments],
            "folder": str(folder or own),
            "files": files,
        }
        server = _server()
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        status = server.stdout.readline().strip()
        assert status, "the process that forks for the scripts is gone"
        said, complaint = (pathlib.Path(file).read_text(encoding="utf-8") for file in files)
        assert status == "0", f"ended with {status}: {complaint[-2000:]}"
        return said


@functools.cache
def _server():
    process = subprocess.Popen(
        [sys.executable, "-P", __file__],  # without this folder on the path
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1"},
    )
    atexit.register(process.communicate)  # its input ends, so it does
    return process


def _serve():
    # TensorFlow would import the Keras that it finds.
    hidden = dict.fromkeys(("tfnlp", "keras", "tf_keras", "tensorflow_text"))
    sys.modules.update(hidden)
    import tensorflow  # noqa: F401

    for name in hidden:
        del sys.modules[name]
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if not child:
            _run(**asked)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(path, code, arguments, folder, files):
    """The script, in the process that was forked for it; does not return."""
    for number, file in enumerate(files, start=1):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    os.close(0)
    status = 0
    try:
        os.chdir(folder)
        sys.argv = [path or "-c", *arguments]
        sys.path.insert(0, os.path.dirname(path) if path else "")
        code = code if path is None else pathlib.Path(path).read_text(encoding="utf-8")
        exec(compile(code, path or "<script>", "exec"), {"__name__": "__main__", "__file__": path})
    except SystemExit as error:
        status = error.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    _serve()
