"""What a step of the published models needs on a TPU v5e, with the largest batch that fits.

    python -m benchmarks.plan [--only BERT-base]

Compiles for hours on two cores (`tfnlp plan --search`; what was compiled before is remembered) and
prints a table in Markdown. The sum of the gradients over chips is in neither engine's plan.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

# Name: options of `tfnlp plan`. Where a search begins does not change where it ends.
_MODELS = {
    "BERT-base": ["--model", "bert-base", "--length", "128", "--guess", "256"],
    "BERT-base, long": ["--model", "bert-base", "--length", "512", "--guess", "32"],
    "ELMo": ["--model", "elmo-original", "--guess", "256"],
    "ELMo, full softmax": ["--model", "elmo-original", "--samples", "0", "--guess", "64"],
    "GPT": ["--model", "gpt", "--guess", "32"],
}
_ENGINES = {
    "TensorFlow": ["--engine", "tensorflow", "--topology", "v5e:2x4"],
    "JAX": ["--engine", "jax", "--topology", "v5e:1x1"],
}
COLUMNS = (
    "model", "length", "engine", "largest batch a chip", "HBM, GiB", "TFLOP a step",
    "GB through HBM", "FLOP/byte", "bound by", "at least, ms", "expected, ms",
)  # fmt: skip
GIB = 2**30


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=_MODELS, action="append")
    args = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for name in args.only or _MODELS:
        for engine, options in _ENGINES.items():
            print(row(name, engine, plan([*_MODELS[name], *options])), flush=True)


def plan(options):
    """The result of `tfnlp plan --search`."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "plan.json"
        command = [sys.executable, "-m", "tfnlp", "plan", "--search", *options, "--json", str(file)]
        subprocess.run(command, check=True, stdout=sys.stderr)
        return json.loads(file.read_text())


def row(name, engine, result):
    """Weights, slots and batch + temporaries and program, and what the step moves."""
    m = result["memory"]
    held = (m["argument"] + m["output"] - m["alias"]) / GIB
    cells = [
        name, result["length"], engine, result["batch_per_replica"],
        f"{held:.1f} + {(m['temp'] + m['generated_code']) / GIB:.1f}",
        f"{result['flops'] / 1e12:.2f}", f"{result['hbm_bytes'] / 1e9:.1f}",
        f"{result['flops_per_byte']:.0f}", result["bound_by"],
        f"{1e3 * result['floor_seconds']:.0f}", f"{1e3 * result['expected_seconds']:.0f}",
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
