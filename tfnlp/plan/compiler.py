"""Runs the TPU's compiler in a process of its own, and remembers what it said."""

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

from tfnlp.plan.hlo import program_costs

# What the compiler says of a program that is too big, by where it noticed.
_TOO_BIG = (
    r"Used ([\d.]+[KMGT]?) of [\d.]+[KMGT]? hbm",
    r"\(([\d.]+[KMGT]?)\) exceeds available HBM",
)
CACHE = os.path.join("~", ".cache", "tfnlp", "plan")


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the compiler said of one program on one device.

    Args:
        usable: bytes of HBM that a program may take.
        memory: dict of bytes: `argument`, `output`, `alias` (outputs that take an argument's
            place), `temp`, `generated_code`; None if the compiler gave up.
        matrix_flops, loop_flops, hbm_bytes, cycles: see `tfnlp.plan.hlo.program_costs`.
        analysis: the compiler's own `flops` and `bytes`, loops counted once.
        needed: bytes that it needs at the least, if the compiler gave up for want of memory.
        refusal: what it said, if it gave up for another reason.
    """

    usable: int
    memory: dict | None = None
    matrix_flops: int = 0
    loop_flops: int = 0
    hbm_bytes: int = 0
    cycles: int = 0
    analysis: dict | None = None
    needed: int | None = None
    refusal: str | None = None

    @property
    def fits(self):
        """The compiler itself only looks whether the temporaries fit, not what is there before."""
        return self.memory is not None and self.total <= self.usable

    @property
    def total(self):
        """Bytes of HBM while the step runs; if the compiler gave up, the least that it may be.

        Weights and slots are updated in place: what a step hands out lies where its argument lay,
        and counts once.
        """
        if self.memory is None:
            return self.needed
        m = self.memory
        return m["argument"] + m["output"] - m["alias"] + m["temp"] + m["generated_code"]

    @property
    def flops(self):
        """FLOP a run: the compiler's count, with the loops' products as often as they run."""
        return self.analysis["flops"] + self.loop_flops


def compile_for(chip, stablehlo, *, cache=CACHE, time_limit=3600, keep=None):
    """Compiles `stablehlo` for one device of `chip`.

    Args:
        chip: a `tfnlp.plan.chips.Chip`.
        stablehlo: the program, text.
        cache: folder of earlier answers and compiled programs; None: neither read nor written.
        time_limit: seconds after which the compiler is stopped.
        keep: file to write the compiled program to.

    Returns:
        a `Compiled`.

    Raises:
        ImportError: without jax or its TPU compiler.
        TimeoutError: past the time limit.
        ChildProcessError: if the compiler dies.
    """
    versions = _versions()
    entry = None
    if cache is not None:
        name = _key(chip, stablehlo, versions)
        entry = pathlib.Path(os.path.expanduser(cache)) / f"{name}.json.gz"
    if entry is not None and entry.exists():
        answer, program = json.loads(gzip.decompress(entry.read_bytes()))
    else:
        answer, program = _run(chip, stablehlo, time_limit)
        # A refusal may be of the moment; it comes soon, too.
        if entry is not None and not _compiled(chip, answer, program).refusal:
            entry.parent.mkdir(parents=True, exist_ok=True)
            written = entry.with_suffix(f".{os.getpid()}")
            written.write_bytes(gzip.compress(json.dumps([answer, program]).encode()))
            written.replace(entry)
    if keep is not None and program:
        pathlib.Path(keep).write_text(program)
    return _compiled(chip, answer, program)


def _versions():
    for package in ("jax", "libtpu"):
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f"planning for a TPU needs its compiler, and {package} is not installed: "
                "pip install -e '.[tpu-plan]' in a clone of tfnlp (on Linux with x86)"
            )
    return {p: importlib.metadata.version(p) for p in ("jax", "jaxlib", "libtpu")}


def _key(chip, stablehlo, versions):
    """A hash of all that the answer depends on; names that TensorFlow numbers are left out."""
    text = re.sub(r"(?m)^#loc.*$| loc\([^)]*\)+|^module @\S+", "", stablehlo)
    parts = json.dumps([_target(chip), sorted(versions.items()), text])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def _target(chip):
    """The smallest topology of `chip`, as a part of the request: one chip is compiled for."""
    options = {"chips_per_host_bounds": [1, 1, 1], **dict(chip.options)}
    return {"topology": f"{chip.name}:{'x'.join('1' * chip.axes)}", "options": options}


def _run(chip, stablehlo, time_limit):
    """What the process wrote: its answer, a dict, and the compiled program, a string."""
    with tempfile.TemporaryDirectory(prefix="tfnlp_plan_") as folder:
        folder = pathlib.Path(folder)
        (folder / "step.mlir").write_text(stablehlo)
        request = {
            "stablehlo": str(folder / "step.mlir"),
            **_target(chip),
            "program": str(folder / "program"),
        }
        (folder / "request.json").write_text(json.dumps(request))
        command = [sys.executable, "-m", "tfnlp.plan.compile_hlo", "request.json", "result.json"]
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
        program = folder / "program"
        return (
            json.loads((folder / "result.json").read_text()),
            program.read_text() if program.exists() else "",
        )


def _environment(folder):
    """Without a TPU nothing is to be asked for, and several compilers may run side by side."""
    package = str(pathlib.Path(__file__).parents[2])
    path = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "PYTHONPATH": os.pathsep.join(path),
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_LOG_DIR": str(folder),
    }


def _death(code, stderr):
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    how = f"ended with code {code}"
    if code < 0:
        how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        if -code == signal.SIGKILL:
            how += ", perhaps for want of memory in this machine"
    return f"the TPU's compiler {how}: {lines[-1] if lines else 'it said nothing'}"


def _compiled(chip, answer, program):
    message = answer.get("error")
    if message is None:
        return Compiled(chip.usable, **answer, **program_costs(program))
    if "RESOURCE_EXHAUSTED" in message:
        for pattern in _TOO_BIG:
            match = re.search(pattern, message)
            if match:
                return Compiled(chip.usable, needed=_bytes(match[1]))
    return Compiled(chip.usable, refusal=message)


def _bytes(text):
    """`15.75G` as a number."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    return int(float(text.rstrip("KMGT")) * units.get(text[-1], 1))
