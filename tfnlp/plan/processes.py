"""Processes that the TPU's compiler runs in, each with a JSON request and a JSON result."""

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def run_module(
    module: str,
    request: Mapping[str, Any],
    folder: pathlib.Path,
    time_limit: float,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run `python -m MODULE REQUEST RESULT` in an empty folder and return what it wrote.

    It is stopped after `time_limit` seconds. `environment` has further variables.
    """
    (folder / "request.json").write_text(json.dumps(request))
    command = [sys.executable, "-m", module, "request.json", "result.json"]
    with open(folder / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **_environment(folder), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )
        try:
            code = process.wait(time_limit)
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                f"the TPU's compiler was stopped after {time_limit:g} s; give it more with "
                "--time-limit, or plan a smaller model"
            ) from None
        finally:
            process.kill()
            process.wait()
    if code or not (folder / "result.json").exists():
        raise ChildProcessError(_death(code, (folder / "stderr").read_text("utf8", "replace")))
    return json.loads((folder / "result.json").read_text())


def _environment(folder: pathlib.Path) -> dict[str, str]:
    """Return variables that stop the search for a TPU and allow several compilers at a time."""
    package = str(pathlib.Path(__file__).parents[2])
    path = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(path),
        "JAX_PLATFORMS": "cpu",
        "JAX_TRACEBACK_FILTERING": "off",  # else a message ends with a remark about that
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_LOG_DIR": str(folder),
    }


def _death(code: int, stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    how = f"ended with code {code}"
    if code < 0:
        how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        if -code == signal.SIGKILL:
            how += ", perhaps because this machine is out of memory"
    return f"the TPU's compiler {how}: {lines[-1] if lines else 'it wrote no message'}"
