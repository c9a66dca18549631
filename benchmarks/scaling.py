"""One model on several devices and in several processes: how fast, and how far from one device.

    python -m benchmarks.scaling [--write]

Trains a small BERT, ELMo and GPT on a book that ships with tfnlp, every run in processes of its
own, the same batches everywhere:

- on one, two and four logical devices of this machine and in two processes, each with all cores:
  what the strategies cost where there is nothing to gain, and how far the losses are from those of
  one device, step by step;
- weak scaling: one process on one core, and two processes, each on a core of its own and with as
  many rows as the one had.

`--write` keeps the results in benchmarks/scaling_results.json and puts the tables into
docs/scale.md.
"""

import argparse
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "scaling_results.json"
MODELS = ("bert", "elmo", "gpt")
# Name: (devices a process, processes, cores a process or None for all, rows a batch).
PLACES = {
    "1 device": (1, 1, None, 32),
    "2 devices": (2, 1, None, 32),
    "4 devices": (4, 1, None, 32),
    "2 processes": (1, 2, None, 32),
    "1 process on 1 core": (1, 1, 1, 32),
    "2 processes on 1 core each": (1, 2, 1, 64),
}
WARM = 5  # steps before the clock starts


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="keep the results, fill the tables")
    arguments = parser.parse_args(argv)
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for model in arguments.models:
        found[model], one = {}, None
        for place in PLACES:
            speed, losses = run(model, place, arguments.steps)
            one = one or losses
            found[model][place] = {"speed": round(speed)}
            text = f"{speed:9,.0f} tokens/s"
            if PLACES[place][3] == PLACES["1 device"][3]:
                far = max(abs(a - b) / a for a, b in zip(one, losses, strict=True))
                found[model][place]["difference"] = float(f"{far:.1e}")
                text += f"  losses within {far:.1e} of one device's"
            print(f"{model:5s} {place:27s} {text}", flush=True)
    if arguments.write:
        if set(found) != set(MODELS):
            raise SystemExit("some model has no results yet: leave --models out")
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        for path, text in pages(found).items():
            path.write_text(text, encoding="utf-8")


def run(model, place, steps):
    """Tokens a second of one cell, and the losses of its steps."""
    devices, processes, cores, rows = PLACES[place]
    addresses = ",".join(f"127.0.0.1:{port}" for port in _ports(processes))
    started = []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(processes):
            out = pathlib.Path(folder, f"{index}.json")
            cell = [model, devices, rows, steps, out]
            cell += [addresses if processes > 1 else "-", index]
            cell += ["-" if cores is None else index]
            command = [sys.executable, "-m", "benchmarks.scaling_cell", *map(str, cell)]
            started.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True))
        for process in started:
            _, error = process.communicate()
            if process.returncode:
                raise SystemExit(f"{model} on {place} failed: {error[-2000:]}")
        cell = json.loads(pathlib.Path(folder, "0.json").read_text())
    times = cell["seconds"][WARM:]
    # The median step: the machine may have had other work for some of them.
    middle = sorted(times)[len(times) // 2]
    return cell["tokens"] / middle, cell["losses"]


def table(found):
    """Markdown: model by place."""
    places = ("1 device", "2 devices", "4 devices", "2 processes")
    lines = [f"| tokens/s (largest loss difference) | {' | '.join(places)} |"]
    lines.append("|---|" + "---:|" * len(places))
    for model in MODELS:
        cells = [f"{found[model][places[0]]['speed']:,.0f}"]
        for place in places[1:]:
            here = found[model][place]
            cells.append(f"{here['speed']:,.0f} ({here['difference']:.0e})")
        lines.append(f"| {_NAMES[model]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def weak_table(found):
    """Markdown: one core, and two with twice the rows."""
    lines = ["| tokens/s | 1 process, 1 core | 2 processes, 1 core each | ratio (2 is ideal) |"]
    lines.append("|---|---:|---:|---:|")
    for model in MODELS:
        one = found[model]["1 process on 1 core"]["speed"]
        two = found[model]["2 processes on 1 core each"]["speed"]
        lines.append(f"| {_NAMES[model]} | {one:,.0f} | {two:,.0f} | {two / one:.2f} |")
    return "\n".join(lines)


def pages(found):
    """Return the text of docs/scale.md with the tables between their marks, by path."""
    from benchmarks.marks import fill

    path = ROOT / "docs" / "scale.md"
    tables = {"scaling": table(found), "weak-scaling": weak_table(found)}
    return {path: fill(path.read_text(encoding="utf-8"), tables, path.name)}


_NAMES = {
    "bert": "BERT, 4 layers x 256, 32 x 64 tokens",
    "elmo": "ELMo, 2 layers x 512 / 128, 32 x 20 words",
    "gpt": "GPT, 4 layers x 256, 32 x 64 tokens",
}


def _ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


if __name__ == "__main__":
    start = time.monotonic()
    main()
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
