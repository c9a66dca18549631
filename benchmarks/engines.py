"""A BERT pretraining step with TensorFlow's and JAX's engine beside plain Flax and optax.

    python -m benchmarks.engines [--peer-python PYTHON] [--rounds 9] [--only 4x256] [--output DIR]

Masked LM and next sentence, dropout 0.1, AdamW, the gradient clipped to a global norm of 1. Every
cell is a process of its own, because Keras has one backend a process; they take turns of some
steps, the order reversed each round. A step ends when its loss is on the host. bf16 is
`mixed_bfloat16`: weights and slots are float32, products and activations bfloat16.

    tensorflow        tfnlp, `KERAS_BACKEND=tensorflow`
    tensorflow, XLA   the same with `jit_compile`
    jax               tfnlp, `KERAS_BACKEND=jax`
    flax              `benchmarks/engines_flax.py`, dropout from JAX's default generator
    flax, rbg         the same with `jax_default_prng_impl=rbg`, which is cheaper to draw

A ratio is that of turns of one round: the median and, in parentheses, the range. The share is that
of the peak: the operations of the step's matrix products (`benchmarks.bert.flops`) over the most
that square products reached in any process in this run. It is left out with `--clock cpu`, where a
second is one of processor time.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

import numpy as np

from benchmarks import turns

ROOT = pathlib.Path(__file__).parents[1]
VOCAB, PREDICTIONS = 30522, 20
SIZES = {"4x256": (4, 256, 4), "12x768": (12, 768, 12)}  # layers, hidden size, heads
# Size, sequences, their length, and how many steps make a turn.
SHAPES = [("4x256", 32, 128, 6), ("4x256", 8, 128, 20), ("12x768", 8, 128, 2)]
DTYPES = ("float32", "bfloat16")
CLOCKS = {"wall": "seconds", "cpu": "cpu"}  # what a turn calls them
# The module of a cell, and what it is told.
CELLS = {
    "tensorflow": ("engines_tfnlp", {"backend": "tensorflow", "jit_compile": False}),
    "tensorflow, XLA": ("engines_tfnlp", {"backend": "tensorflow", "jit_compile": True}),
    "jax": ("engines_tfnlp", {"backend": "jax", "jit_compile": False}),
    "flax": ("engines_flax", {"prng": "threefry2x32"}),
    "flax, rbg": ("engines_flax", {"prng": "rbg"}),
}


def main(argv=None):
    parser = argparse.ArgumentParser(prog="engines", description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", default=os.environ.get("PEER_PYTHON", sys.executable),
                        metavar="PYTHON", help="a Python with flax and optax "
                        "(default: $PEER_PYTHON, else this one)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=9, help="turns of a cell that count")
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS), metavar="CELL",
                        help="some of " + ", ".join(map(repr, CELLS)))  # fmt: skip
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: processor time of "
                        "all threads, for a machine that others use, too")  # fmt: skip
    parser.add_argument("--output", default="runs/engines", metavar="DIR", help="of logs, results")
    args = parser.parse_args(argv)
    output = pathlib.Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    found = []
    print(header(args.cells), flush=True)
    try:
        for (size, batch, length, steps), dtype in (
            (shape, dtype) for shape in SHAPES for dtype in DTYPES
        ):
            name = f"{size}, {batch} x {length}, {dtype}"
            if not all(word in name for word in args.only):
                continue
            case = dict(size=size, batch=batch, length=length, dtype=dtype, steps=steps)
            found.append({"name": name, **case, "turns": measured(case, args, output)})
            (output / "results.json").write_text(json.dumps(found), encoding="utf-8")
            print(row(found[-1], CLOCKS[args.clock]), flush=True)
    except (ValueError, OSError) as error:
        print(f"engines: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def measured(case, args, output):
    """The turns of every cell, those that warm up left out: dict of name to list of dicts."""
    children = {}
    for name in args.cells:
        module, settings = CELLS[name]
        python = args.peer_python if module == "engines_flax" else sys.executable
        told = json.dumps({**case, **settings, "rounds": args.rounds})
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment["KERAS_BACKEND"] = settings.get("backend", "jax")
        children[name] = turns.Child(
            [python, "-m", f"benchmarks.{module}", told],
            output / f"{name}.log", ROOT, environment,
        )  # fmt: skip
    turns.alternate(list(children.values()))
    return {name: child.turns[1:] for name, child in children.items()}


def header(cells):
    """The first two lines of the table, Markdown."""
    names = ["step", "peak", *cells]
    names += [f"jax / {name}" for name in cells if name != "jax" and "jax" in cells]
    return f"| {' | '.join(names)} |\n|---|{'---:|' * (len(names) - 1)}"


def row(case, clock):
    """The line of a case: peak in GFLOPS; examples a second, share of the peak; ratios."""
    from benchmarks.bert import flops  # imports TensorFlow

    found = case["turns"]
    peak = max(turns_[-1]["peak"] for turns_ in found.values())
    work = flops("training", case["length"], *SIZES[case["size"]])  # of a sequence
    cells = [case["name"], f"{peak / 1e9:.0f}"]
    rates = {
        name: [turn["examples"] / turn[clock] for turn in turns_[:-1]]
        for name, turns_ in found.items()
    }
    for each in rates.values():
        rate = statistics.median(each)
        # The peak is that of all cores.
        share = f" ({work * rate / peak:.2f})" if clock == "seconds" else ""
        cells.append(f"{rate:.1f}{share}")
    if "jax" in rates:
        cells += [spread(rates["jax"], each) for name, each in rates.items() if name != "jax"]
    return f"| {' | '.join(cells)} |"


def spread(ours, theirs):
    """The median and the range of the ratios of turns that followed each other."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def take_turns(case, step, peak):
    """The work of a cell: turns of `case["steps"]` steps until as many as wanted were made.

    Args:
        case: as `measured` gives it.
        step: makes a step and returns a dict of numbers, its `loss` among them.
        peak: returns the operations a second that square products reach.
    """
    each = turns.Turns(case["steps"])
    for _ in range(case["rounds"] + 1):  # the first one compiles
        for _ in range(case["steps"]):
            told = step()
            each.taken, each.examples = each.taken + 1, each.examples + case["batch"]
        each.report(**told)
        each.wait()
    each.report(peak=peak(), done=True)


def batch_of(case):
    """A full batch (no padding), as the task takes it: dict of numpy arrays."""
    random, count, length = np.random.default_rng(0), case["batch"], case["length"]
    shape = (count, PREDICTIONS)
    return {
        "input_word_ids": random.integers(1000, VOCAB, (count, length), "int32"),
        "input_mask": np.ones((count, length), "int32"),
        "input_type_ids": np.tile((np.arange(length) >= length // 2).astype("int32"), (count, 1)),
        "masked_lm_positions": random.integers(1, length, shape, "int32"),
        "masked_lm_ids": random.integers(1000, VOCAB, shape, "int32"),
        "masked_lm_weights": np.ones(shape, "float32"),
        "next_sentence_labels": random.integers(0, 2, count, "int32"),
    }


if __name__ == "__main__":
    sys.exit(main())
