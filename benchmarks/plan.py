"""The table of plans: what a step of the published models needs on a TPU v5e.

    python -m benchmarks.plan [--run] [--write]

`--run` compiles (hours on two cores; what was compiled before is remembered) and fills
benchmarks/plan_results.json; `--write` puts the table between the marks in docs/plan.md.
Without either it is printed.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from benchmarks import marks

ROOT = pathlib.Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "plan_results.json"
# Name: options of `tfnlp plan`. Where a search begins does not change where it ends.
_MODELS = {
    "BERT-base": ["--model", "bert-base", "--length", "128", "--guess", "256"],
    "BERT-base, long": ["--model", "bert-base", "--length", "512", "--guess", "32"],
    "ELMo": ["--model", "elmo-original", "--guess", "256"],
    "ELMo, full softmax": ["--model", "elmo-original", "--samples", "0", "--guess", "64"],
    "GPT": ["--model", "gpt", "--guess", "32"],
}
# On one chip, as TensorFlow's step is compiled: the sum of the gradients is in neither.
_JAX = ["--engine", "jax", "--topology", "v5e:1x1"]
PLANS = {
    **{name: ["--topology", "v5e:2x4", *options] for name, options in _MODELS.items()},
    **{f"{name}, JAX": [*_JAX, *options] for name, options in _MODELS.items()},
}
GIB = 2**30


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", action="store_true", help="compile")
    parser.add_argument("--only", choices=list(PLANS), action="append", help="of --run")
    parser.add_argument("--write", action="store_true", help="into docs/plan.md")
    args = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if args.run:
        for name in args.only or PLANS:
            results[name] = _plan(PLANS[name])
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    text = table(results)
    print(text)
    if args.write:
        write("docs/plan.md", "plan", text)


def _plan(options):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "plan.json"
        command = [sys.executable, "-m", "tfnlp", "plan", "--search"]
        subprocess.run([*command, *options, "--json", str(file)], check=True, cwd=ROOT)
        return json.loads(file.read_text())


def table(results):
    """Markdown, a row a plan."""
    lines = [
        "| model | length | engine | largest batch a chip | HBM, GiB | TFLOP a step | "
        "GB through HBM | FLOP/byte | bound by | at least, ms | expected, ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    engines = {"tensorflow": "TensorFlow", "jax": "JAX"}
    order = sorted(results, key=lambda name: name.removesuffix(", JAX"))
    for name in order:
        r = results[name]
        m = r["memory"]
        arguments = m["argument"] + m["output"] - m["alias"]
        hbm = f"{arguments / GIB:.1f} + {(m['temp'] + m['generated_code']) / GIB:.1f}"
        lines.append(
            f"| {name.removesuffix(', JAX').removesuffix(', long')} | {r['length']} | "
            f"{engines[r['engine']]} | {r['batch_per_replica']} | {hbm} | "
            f"{r['flops'] / 1e12:.2f} | {r['hbm_bytes'] / 1e9:.1f} | {r['flops_per_byte']:.0f} | "
            f"{r['bound_by']} | {1e3 * r['floor_seconds']:.0f} | "
            f"{1e3 * r['expected_seconds']:.0f} |"
        )
    return "\n".join(lines)


def write(page, mark, text):
    """Puts `text` between the marks called `mark` of a page, a path from the repository's root."""
    path = ROOT / page
    path.write_text(marks.fill(path.read_text(), {mark: text}, page))


if __name__ == "__main__":
    main()
