"""What a module's `values` of named rows are in a process with another backend of Keras.

`python -m tests.backends MODULE FOLDER NAMES` writes them, or the traceback of each row that fails.
"""

import importlib
import pathlib
import sys
import traceback

import numpy as np
import pytest

from tests.support import QUICK_JAX, start_python


def computed(module, backend, names, folder):
    """The values of all rows, `NAME|KEY` to array."""
    with open(folder / "stderr.txt", "w") as stderr:
        env = {"KERAS_BACKEND": backend, **QUICK_JAX}
        command = ["-m", "tests.backends", module, folder, *sorted(names)]
        process = start_python(*command, stderr=stderr, env=env)
        assert process.wait() == 0, (folder / "stderr.txt").read_text()[-3000:]
    with np.load(folder / "values.npz") as found:
        return dict(found)


def of_row(found, name):
    """The values of a row by key; a row that failed fails the test."""
    prefix = f"{name}|"
    found = {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}
    if "error" in found:
        pytest.fail(str(found["error"]))
    return found


def tested(request):
    """The parameters of all tests of the test's file that run in this session."""
    items = [item for item in request.session.items if item.path == request.path]
    return [item.callspec.params for item in items if hasattr(item, "callspec")]


def main(module, folder, *names):
    values, folder, found = importlib.import_module(module).values, pathlib.Path(folder), {}
    for name in names:
        try:
            row = values(name, folder)
        except Exception:
            row = {"error": np.array(traceback.format_exc())}
        found.update({f"{name}|{key}": value for key, value in row.items()})
    np.savez(folder / "values.npz", **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
