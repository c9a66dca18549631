"""Pretraining steps of BERT and GPT here, beside keras-hub, Hugging Face and plain Flax.

    python -m benchmarks.steps [--cells jax "keras-hub, XLA" ...] [--only 4x256] [--next-sentence]
        [--peer-python PYTHON] [--rounds 9] [--output DIR]

Dropout 0.1, AdamW; of a BERT 20 masked positions, and with `--next-sentence`, which keras-hub does
not learn, pairs too. Its gradients are clipped to a global norm of 1. Every cell is a process of
its own, because Keras has one backend a process; they take turns of some steps, the order reversed
each round. A step ends when its loss is on the host. bfloat16 is `mixed_bfloat16`: weights and
slots are float32, products and activations bfloat16.

    tensorflow, jax            tfnlp on each backend of Keras
    keras-hub                  its masked LM or causal LM in TensorFlow; `, XLA`: jit-compiled
    transformers               `benchmarks/hugging_face.py`, plain and through `torch.compile`
    flax                       `benchmarks/flax_step.py`, of BERTs; `, rbg`: a generator of JAX
                               that is cheaper to draw from

A ratio is that of turns of one round: the median and, in parentheses, the range.
"""

import argparse
import itertools
import pathlib
import statistics
import sys

from benchmarks import cases, turns

# Family, size, sequences, their length, and how many steps make a turn.
SHAPES = [
    ("bert", "4x256", 32, 128, 6), ("bert", "4x256", 8, 128, 20), ("bert", "12x768", 8, 128, 2),
    ("bert", "12x768", 2, 512, 2), ("gpt", "4x256", 16, 128, 8),
]  # fmt: skip
VOCAB = {**cases.VOCAB, "gpt": 40_000}
# The module of a cell, and what it is told.
CELLS = {
    **{
        name: ("steps", {"library": library, "backend": backend, "compiled": compiled})
        for name, library, backend, compiled in (
            ("tensorflow", "tfnlp", "tensorflow", False),
            ("tensorflow, XLA", "tfnlp", "tensorflow", True),
            ("jax", "tfnlp", "jax", False),
            ("keras-hub", "keras-hub", "tensorflow", False),
            ("keras-hub, XLA", "keras-hub", "tensorflow", True),
        )
    },
    "transformers": ("hugging_face", {"compiled": False}),
    "transformers, compiled": ("hugging_face", {"compiled": True}),
    "flax": ("flax_step", {"prng": "threefry2x32"}),
    "flax, rbg": ("flax_step", {"prng": "rbg"}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON",
                        help="with what a peer needs (default: this one)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=9, help="turns of a cell that count")
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    parser.add_argument("--cells", nargs="+", choices=CELLS, default=list(CELLS)[:5],
                        metavar="CELL", help="the first one beside the others")  # fmt: skip
    parser.add_argument("--next-sentence", action="store_true")
    parser.add_argument("--output", default="runs/steps", metavar="DIR", help="of logs")
    args = parser.parse_args()
    pathlib.Path(args.output).mkdir(parents=True, exist_ok=True)
    first, *others = args.cells
    names = ["step, examples/s", *args.cells, *(f"{first} / {name}" for name in others)]
    print(f"| {' | '.join(names)} |\n|---|{'---:|' * (len(names) - 1)}", flush=True)
    for (family, size, rows, length, steps), dtype in itertools.product(
        SHAPES, ("float32", "bfloat16")
    ):
        name = f"{family} {size}, {rows} x {length}, {dtype}"
        if all(word in name for word in args.only):
            case = {**cases.SIZES[size], "family": family, "vocab": VOCAB[family],
                    "rows": rows, "length": length, "predictions": 20, "dtype": dtype,
                    "next_sentence": args.next_sentence, "steps": steps, "rounds": args.rounds,
                    "clip_norm": 1.0 if family == "bert" else None}  # fmt: skip
            print(f"| {name} | {' | '.join(cells(case, args))} |", flush=True)


def cells(case, args):
    """Examples a second of every cell; ratios. The turns that warm up are left out."""
    children = []
    for name in args.cells:
        module, told = CELLS[name]
        children.append(turns.Child(
            module, {**case, **told}, pathlib.Path(args.output, f"{name}.log"),
            sys.executable if module == "steps" else args.peer_python,
            JAX_PLATFORMS="cpu", KERAS_BACKEND=told.get("backend", "jax"),
        ))  # fmt: skip
    turns.alternate(children)
    first, *others = rates = [turns.rates(child.turns[1:]) for child in children]
    found = [f"{statistics.median(each):.1f}" for each in rates]
    return found + [turns.spread(first, each) for each in others]


def of_tfnlp(case):
    """A function that takes a step of tfnlp and returns its loss."""
    from tfnlp import training

    trainer = training.Trainer(
        cases.objective_of(case), training.AdamW(), 1e-4, clip_norm=case["clip_norm"],
        jit_compile=case["compiled"],
    )  # fmt: skip
    batches = itertools.repeat(cases.batch_of(case))
    if case["backend"] == "tensorflow":
        import tensorflow as tf

        batches = iter(tf.data.Dataset.from_tensors(cases.batch_of(case)).repeat())

    def step():
        totals = {k: float(v) for k, v in trainer.train_steps(batches, 1).items()}
        return sum(x / totals[k.replace("loss/", "count/")] for k, x in totals.items()
                   if k.startswith("loss/"))  # fmt: skip

    return step


def of_keras_hub(case):
    """The same of keras-hub."""
    import keras
    import keras_hub

    batch, bert = cases.batch_of(case), case["family"] == "bert"
    kind = keras_hub.models.BertMaskedLM if bert else keras_hub.models.GPT2CausalLM
    model = kind(cases.keras_hub_backbone(case), preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(1e-4, global_clipnorm=case["clip_norm"])
    model.compile(optimizer, loss, jit_compile=case["compiled"])
    inputs = {"token_ids": batch["input_word_ids"], "padding_mask": batch["input_mask"]}
    targets, weights = batch.get("targets"), None
    if bert:
        inputs["segment_ids"] = batch["input_type_ids"]
        inputs["mask_positions"] = batch["masked_lm_positions"]
        targets, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]

    def step():
        said = model.train_on_batch(inputs, targets, sample_weight=weights, return_dict=True)
        return float(said["loss"])

    return step


def work(case):
    """The process of a cell with Keras."""
    import keras

    keras.config.set_dtype_policy(cases.policy_of(case["dtype"]))
    turns.take_steps(case, {"tfnlp": of_tfnlp, "keras-hub": of_keras_hub}[case["library"]](case))


if __name__ == "__main__":
    turns.run(work, main)
