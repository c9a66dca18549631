"""Runs of the TPU's compiler in a process of its own, with a cache of its results."""

import dataclasses
import gzip
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from tfnlp.files import written_whole
from tfnlp.plan.chips import Chip, Topology
from tfnlp.plan.hlo import program_costs
from tfnlp.settings.plan import CACHE

# The compiler's messages for a program that is too big.
_TOO_BIG = (
    r"Used ([\d.]+[KMGT]?) of [\d.]+[KMGT]? hbm",
    r"\(([\d.]+[KMGT]?)\) exceeds available HBM",
)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """The compiler's result for one program: what it takes of each device.

    Args:
        usable: bytes of HBM that a program may use.
        memory: dict of bytes: `argument`, `output`, `alias` (outputs in the place of an
            argument), `temp`, `generated_code`; None if compilation failed.
        matrix_flops, loop_flops, hbm_bytes, cycles: see `tfnlp.plan.hlo.program_costs`.
        analysis: the compiler's own `flops` and `bytes`, loops counted once.
        needed: lower bound of the bytes needed, if compilation failed for lack of memory.
        refusal: the compiler's message, if it failed for another reason.
    """

    usable: int
    memory: dict[str, int] | None = None
    matrix_flops: int = 0
    loop_flops: int = 0
    hbm_bytes: int = 0
    cycles: int = 0
    analysis: dict[str, float] | None = None
    needed: int | None = None
    refusal: str | None = None

    @property
    def fits(self) -> bool:
        """Whether all memory fits; the compiler itself only checks the temporaries."""
        return self.memory is not None and self.total <= self.usable

    @property
    def total(self) -> int | None:
        """Bytes of HBM while the step runs; a lower bound if compilation failed.

        Weights and slots are updated in place: an output that replaces an argument counts once.
        """
        if self.memory is None:
            return self.needed
        m = self.memory
        return m["argument"] + m["output"] - m["alias"] + m["temp"] + m["generated_code"]

    @property
    def flops(self) -> float:
        """FLOP per run: the compiler's count, with products in loops counted for each pass."""
        return self.analysis["flops"] + self.loop_flops


def compile_for(
    chip: Chip,
    stablehlo: str,
    *,
    topology: Topology | None = None,
    cache: str | os.PathLike | None = CACHE,
    time_limit: float = 3600,
    keep: str | os.PathLike | None = None,
) -> Compiled:
    """Compile `stablehlo` for one device of `chip`, or for all devices of a topology.

    `cache` is the folder of earlier results and compiled programs, None if they are neither read
    nor written. The compiler is stopped after `time_limit` seconds; `keep` is a file to write the
    compiled program to.
    """
    versions = compiler_versions()
    entry = None
    if cache is not None:
        name = _key(chip, topology, stablehlo, versions)
        entry = pathlib.Path(os.path.expanduser(cache)) / f"{name}.json.gz"
    if entry is not None and entry.exists():
        answer, program = json.loads(gzip.decompress(entry.read_bytes()))
    else:
        answer, program = _run(chip, topology, stablehlo, time_limit)
        # A refusal is not cached: its cause may be temporary, and it takes little time.
        if entry is not None and not _compiled(chip, answer, program).refusal:
            entry.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(entry) as partial:
                data = gzip.compress(json.dumps([answer, program]).encode())
                pathlib.Path(partial).write_bytes(data)
    if keep is not None and program:
        with written_whole(keep) as partial:
            pathlib.Path(partial).write_text(program)
    return _compiled(chip, answer, program)


def compiler_versions() -> dict[str, str]:
    """Return the versions of jax and its TPU compiler."""
    for package in ("jax", "libtpu"):
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f"planning for a TPU needs its compiler, and {package} is not installed: "
                "pip install -e '.[tpu-plan]' in a clone of tfnlp (on Linux with x86)"
            )
    return {p: importlib.metadata.version(p) for p in ("jax", "jaxlib", "libtpu")}


def _key(chip: Chip, topology: Topology | None, stablehlo: str, versions: Mapping[str, str]) -> str:
    """Return a hash of all that the result depends on, without names that TensorFlow numbers.

    The engine is in the program: its text.
    """
    text = re.sub(r"(?m)^#loc.*$| loc\([^)]*\)+|^module @\S+", "", stablehlo)
    parts = json.dumps([compile_target(chip, topology), sorted(versions.items()), text])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def compile_target(chip: Chip, topology: Topology | None) -> dict[str, Any]:
    """Return a topology of the compiler and its options, as a part of a request.

    All of its devices run the program; without one a device of `chip` does.
    """
    shape = topology.shape if topology else (1,) * chip.axes
    # All chips at one host: what one process runs is lowered.
    host = [*shape, *[1] * (3 - len(shape))]
    return {
        "topology": f"{chip.name}:{'x'.join(map(str, shape))}",
        "options": {"chips_per_host_bounds": host, **dict(chip.options)},
    }


def _run(
    chip: Chip, topology: Topology | None, stablehlo: str, time_limit: float
) -> tuple[dict[str, Any], str]:
    """Return what the process wrote: its result, a dict, and the compiled program."""
    with tempfile.TemporaryDirectory(prefix="tfnlp_plan_") as name:
        folder = pathlib.Path(name)
        (folder / "step.mlir").write_text(stablehlo)
        program = folder / "program"
        request = {
            "stablehlo": str(folder / "step.mlir"),
            **compile_target(chip, topology),
            "program": str(program),
        }
        answer = run_module("tfnlp.plan.compile_hlo", request, folder, time_limit)
        return answer, program.read_text() if program.exists() else ""


def _compiled(chip: Chip, answer: Mapping[str, Any], program: str) -> Compiled:
    message = answer.get("error")
    if message is None:
        return Compiled(chip.usable, **answer, **program_costs(program))
    if "RESOURCE_EXHAUSTED" in message:
        for pattern in _TOO_BIG:
            match = re.search(pattern, message)
            if match:
                return Compiled(chip.usable, needed=_bytes(match[1]))
    return Compiled(chip.usable, refusal=message)


def _bytes(text: str) -> int:
    """Return a size such as `15.75G` in bytes."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    return int(float(text.rstrip("KMGT")) * units.get(text[-1], 1))


def run_module(
    module: str,
    request: Mapping[str, Any],
    folder: pathlib.Path,
    time_limit: float,
) -> dict[str, Any]:
    """Run `python -m MODULE REQUEST RESULT` in an empty folder and return what it wrote.

    It is stopped after `time_limit` seconds.
    """
    (folder / "request.json").write_text(json.dumps(request))
    command = [sys.executable, "-m", module, "request.json", "result.json"]
    with open(folder / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **_environment(folder)},
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
        "KERAS_BACKEND": "jax",
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
