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

A ratio is that of turns of one round: the median and, in parentheses, the range.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import sys

from benchmarks import turns
from benchmarks.cases import SIZES, VOCAB, batch_of, policy_of

PREDICTIONS = 20
# Size, sequences, their length, and how many steps make a turn.
SHAPES = [("4x256", 32, 128, 6), ("4x256", 8, 128, 20), ("12x768", 8, 128, 2)]
# The module of a cell, and what it is told.
CELLS = {
    "tensorflow": ("engines", {"backend": "tensorflow", "jit_compile": False}),
    "tensorflow, XLA": ("engines", {"backend": "tensorflow", "jit_compile": True}),
    "jax": ("engines", {"backend": "jax", "jit_compile": False}),
    "flax": ("engines_flax", {"prng": "threefry2x32"}),
    "flax, rbg": ("engines_flax", {"prng": "rbg"}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON",
                        help="with flax and optax (default: this one)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=9, help="turns of a cell that count")
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS), metavar="CELL")
    parser.add_argument("--output", default="runs/engines", metavar="DIR", help="of logs")
    args = parser.parse_args()
    pathlib.Path(args.output).mkdir(parents=True, exist_ok=True)
    names = ["step", *args.cells]
    names += [f"jax / {name}" for name in args.cells if name != "jax" and "jax" in args.cells]
    print(f"| {' | '.join(names)} |\n|---|{'---:|' * (len(names) - 1)}", flush=True)
    for (size, batch, length, steps), dtype in itertools.product(SHAPES, ("float32", "bfloat16")):
        name = f"{size}, {batch} x {length}, {dtype}"
        if all(word in name for word in args.only):
            case = {**SIZES[size], "family": "bert", "vocab": VOCAB["bert"], "rows": batch,
                    "length": length, "predictions": PREDICTIONS, "dtype": dtype, "steps": steps,
                    "rounds": args.rounds}  # fmt: skip
            print(f"| {name} | {' | '.join(cells(case, args))} |", flush=True)


def cells(case, args):
    """Examples a second of every cell; ratios. The turns that warm up are left out."""
    children = {}
    for name in args.cells:
        module, settings = CELLS[name]
        children[name] = turns.Child(
            module, {**case, **settings}, pathlib.Path(args.output, f"{name}.log"),
            args.peer_python if module == "engines_flax" else sys.executable,
            JAX_PLATFORMS="cpu", KERAS_BACKEND=settings.get("backend", "jax"),
        )  # fmt: skip
    turns.alternate(children.values())
    rates = {name: turns.rates(child.turns[1:]) for name, child in children.items()}
    found = [f"{statistics.median(each):.1f}" for each in rates.values()]
    peers = [each for name, each in rates.items() if name != "jax"] if "jax" in rates else []
    return found + [turns.spread(rates["jax"], each) for each in peers]


def take_turns(case, step):
    """The work of a cell: turns of `case["steps"]` calls of `step`, which returns its loss."""

    def turn():
        return {"loss": [step() for _ in range(case["steps"])][-1]}

    turns.take(case["rounds"], turn, case["steps"] * case["rows"])


def work(case):
    """A cell of tfnlp."""
    import keras

    from tfnlp import models, objectives, training

    keras.config.set_dtype_policy(policy_of(case["dtype"]))
    sizes = case["layers"], case["hidden"], case["heads"], 4 * case["hidden"]
    encoder = models.bert(case["vocab"], *sizes, seq_length=case["length"])
    model = models.bert_pretrainer(encoder, max_predictions=PREDICTIONS)
    trainer = training.Trainer(
        objectives.BertPretraining(model), training.AdamW(), 1e-4, jit_compile=case["jit_compile"]
    )
    batch = batch_of(case)
    if case["backend"] == "jax":
        batches = itertools.repeat(batch)
    else:
        import tensorflow as tf

        batches = iter(tf.data.Dataset.from_tensors(batch).repeat())

    def step():
        totals = {k: float(v) for k, v in trainer.train_steps(batches, 1).items()}
        names = ("masked_lm", "next_sentence")
        return sum(totals[f"loss/{name}"] / totals[f"count/{name}"] for name in names)

    take_turns(case, step)


if __name__ == "__main__":
    work(json.loads(sys.argv[1])) if sys.argv[1:2] and sys.argv[1][0] == "{" else main()
