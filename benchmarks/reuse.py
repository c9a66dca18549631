"""What works with our SavedModels: loader x kind of module x inference and training x strategy.

    python -m benchmarks.reuse [--output DIR] [--write]

Every cell is a run: inference must give the outputs of the model in memory, training the weights
that two steps of Adam in numpy give, on one device, on two replicas (`MirroredStrategy`) and in two
processes (`MultiWorkerMirroredStrategy`), with the module as its exporter wrote it, fine-tuned and
exported again, and exported once more from there. OUTPUT/results.json keeps what was found, so that
the same command goes on where the last one stopped; `--write` puts the tables into
docs/reuse.md, between their marks. About half an hour on two cores.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

from tqdm import tqdm  # noqa: E402

from benchmarks.marks import fill  # noqa: E402
from benchmarks.reuse_loaders import LOADERS  # noqa: E402
from benchmarks.reuse_modules import KINDS, STAGES, make_all  # noqa: E402

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "reuse_results.json"
WORKS = ("infer", "train", "mirrored", "workers")
LIMIT = 900  # seconds for a process


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="reuse", metavar="DIR", help="default: reuse")
    parser.add_argument("--loaders", nargs="+", default=LOADERS, choices=LOADERS, metavar="LOADER")
    parser.add_argument("--stages", nargs="+", default=STAGES, choices=STAGES, metavar="STAGE")
    parser.add_argument("--works", nargs="+", default=WORKS, choices=WORKS, metavar="WORK")
    parser.add_argument("--write", action="store_true", help="into docs/reuse.md")
    args = parser.parse_args(argv)
    found = measure(pathlib.Path(args.output), args.loaders, args.stages, args.works)
    print(table(found))
    if args.write:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        for path, text in documents(found).items():
            path.write_text(text, encoding="utf-8")


def measure(folder, loaders=LOADERS, stages=STAGES, works=WORKS):
    """Dict by loader, stage, work and kind of "yes" or what is wrong."""
    if not (folder / "modules" / "expected" / STAGES[-1]).is_dir():
        print("writing the modules", file=sys.stderr)
        make_all(folder / "modules")
    file = folder / "results.json"
    found = json.loads(file.read_text()) if file.exists() else {}
    todo = [(loader, stage) for loader in loaders for stage in stages]
    for loader, stage in tqdm(todo, unit="process", disable=not sys.stderr.isatty()):
        cells = found.setdefault(loader, {}).setdefault(stage, {})
        together = [w for w in works if w != "workers" and w not in cells]
        if together:
            cells.update(_run(folder / "modules", loader, stage, together))
        if "workers" in works and "workers" not in cells:
            trained = cells.get("train", {})
            if all(x == "yes" for x in trained.values()):
                cells.update(_run_workers(folder / "modules", loader, stage))
            else:  # with processes that wait for one another, one that fails would hang the rest
                cells["workers"] = dict.fromkeys(trained, "does not train on one device")
        file.write_text(json.dumps(found, indent=1))
    return found


def _command(folder, loader, stage, works):
    return [sys.executable, "-m", "benchmarks.reuse_cells", str(folder), loader, stage, *works]


def _run(folder, loader, stage, works):
    command = _command(folder, loader, stage, works)
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=ROOT)
    return _said(done.returncode, done.stdout, done.stderr, works)


def _run_workers(folder, loader, stage):
    """Two processes that share the work; both must find the same."""
    cluster = {"worker": [f"localhost:{port}" for port in _free_ports(2)]}
    processes = []
    for index in range(2):
        config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        processes.append(
            subprocess.Popen(
                _command(folder, loader, stage, ["workers"]),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, "TF_CONFIG": json.dumps(config)},
            )
        )
    try:
        said = [p.communicate(timeout=LIMIT) for p in processes]
    finally:
        for process in processes:
            process.kill()
    codes = [p.returncode for p in processes]
    first, second = [_said(c, *x, ["workers"]) for c, x in zip(codes, said, strict=True)]
    if first != second:
        raise RuntimeError(f"the workers disagree: {first} and {second}")
    return first


def _said(code, stdout, stderr, works):
    lines = stdout.strip().split("\n")
    if code != 0 or not lines[-1].startswith("{"):
        raise RuntimeError(f"no answer for {works}:\n{stderr[-3000:]}")
    return json.loads(lines[-1])


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


# --- Tables


def table(found):
    """Markdown: a row for each loader, a column for each kind; in a cell the works that come out
    right at all three stages."""
    lines = [f"| | {' | '.join(KINDS)} |", f"|---|{'---|' * len(KINDS)}"]
    for loader in found:
        cells = [" ".join(_marks(found[loader], kind)) or "-" for kind in KINDS]
        lines.append(f"| {_code(loader)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _marks(stages, kind):
    for work in WORKS:
        if all(stages.get(s, {}).get(work, {}).get(kind) == "yes" for s in STAGES):
            yield work


def details(found):
    """Markdown: what was wrong, by loader, with the kinds and stages that it was seen in."""
    lines = []
    for loader, stages in found.items():
        wrong = {}
        for stage, works in stages.items():
            for work, kinds in works.items():
                for kind, said in kinds.items():
                    if said not in ("yes", "does not train on one device"):
                        wrong.setdefault((work, said), []).append(f"{kind} ({stage})")
        for (work, said), places in wrong.items():
            seen = {place.rsplit(" (", 1)[0] for place in places}
            at = ", ".join(kind for kind in KINDS if kind in seen)
            said = said.replace("|", "/").replace("<", "").replace(">", "")
            lines.append(f"- {_code(loader)}, {work}, {at}: {said}")
    return "\n".join(lines) or "- nothing"


def _code(loader):
    name, _, rest = loader.partition(", ")
    return f"`{name}`" + (f" in {rest}" if rest else "")


def documents(found):
    """Return the text of docs/reuse.md with the tables between their marks, by path."""
    path = ROOT / "docs" / "reuse.md"
    tables = {"reuse": table(found), "reuse-details": details(found)}
    return {path: fill(path.read_text(encoding="utf-8"), tables, path.name)}


if __name__ == "__main__":
    main()
