"""Prediction of a BERT classifier: tfnlp beside Hugging Face transformers and keras-hub.

    python -m benchmarks.prediction [--peer-python PYTHON] [--only 12x768] [--only float32]
        [--rounds 4] [--texts 256] [--output DIR]

Random weights, the same token ids for all: "mixed" has texts of 10 to 128 tokens, the others have
128 tokens each, in batches of 1, 8 and 32. A turn is the prediction of all texts, from ids in their
own order to logits in this order; it includes sorting and padding. Each library is a process of its
own with as many threads; they take turns, the order reversed each round. Before that a library
tries its modes on the same texts, and goes on in the fastest one:

    tfnlp       `tfnlp.training.predictor`, as `TaskRun.predict` calls it
    torch       `benchmarks/prediction_torch.py`: eager and `torch.compile`, batches of 32 and of 8
                (mixed texts); in bfloat16 bfloat16 weights, or float32 under `torch.autocast`
    keras-hub   sorted by length and padded to multiples of 8 for each batch: `tf.function`, with
                XLA where all texts have one length; in bfloat16 `mixed_bfloat16` and `bfloat16`

tfnlp in bfloat16 is `mixed_bfloat16`: the weights are float32. A ratio is that of turns of one
round: the median and, in parentheses, the range. With `--clock cpu` a second is one of processor
time of all threads, for a machine that others use, too.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import numpy as np

from benchmarks import turns
from benchmarks.cases import SIZES, VOCAB, policy_of

SHORTEST, LONGEST, CLASSES = 10, 128, 2
# Size, lengths, rows of a batch (of the longest texts), and how many times the number of texts.
CASES = [
    ("12x768", "mixed", 32, 1),
    ("4x256", "mixed", 32, 4),
    ("4x256", "128", 1, 1),
    ("4x256", "128", 8, 1),
    ("4x256", "128", 32, 1),
]
LIBRARIES = ("tfnlp", "torch", "keras-hub")
CLOCKS = {"wall": "seconds", "cpu": "cpu"}  # what a turn calls them


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON",
                        help="with torch and transformers (default: this one)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=4, help="turns of a library that count")
    parser.add_argument("--texts", type=int, default=256, help="of the mixed case at 12x768")
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    parser.add_argument("--batch-size", type=int, help="rows, in place of those of the cases")
    parser.add_argument("--modes", nargs="+", metavar="WORD", help="of the peers only modes whose "
                        "name holds one of these words")  # fmt: skip
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--output", default="runs/prediction", metavar="DIR", help="of logs")
    args = parser.parse_args()
    pathlib.Path(args.output).mkdir(parents=True, exist_ok=True)
    peers = [name for name in args.libraries if name != "tfnlp"]
    print(f"| prediction | {' | '.join([*args.libraries, *(f'tfnlp / {p}' for p in peers)])} |")
    print("|---|" + "---:|" * (len(args.libraries) + len(peers)), flush=True)
    for size, lengths, rows, times in CASES:
        for dtype in ("float32", "bfloat16"):
            batch = args.batch_size or rows
            name = f"{size}, {lengths}, batches of {batch}, {dtype}"
            if all(word in name for word in args.only):
                case = {**SIZES[size], "vocab": VOCAB["bert"], "lengths": lengths, "batch": batch,
                        "dtype": dtype, "modes": args.modes, "texts": args.texts * times,
                        "rounds": args.rounds}  # fmt: skip
                print(f"| {name} | {' | '.join(cells(case, args))} |", flush=True)


def cells(case, args):
    """Texts a second and the mode of each library; ratios."""
    children = {
        name: turns.Child(
            "prediction_torch" if name == "torch" else "prediction", {**case, "library": name},
            pathlib.Path(args.output, f"{name}.log"),
            args.peer_python if name == "torch" else sys.executable, KERAS_BACKEND="tensorflow",
        )
        for name in args.libraries
    }  # fmt: skip
    turns.alternate(children.values())
    rates = {n: turns.rates(child.turns[1:], CLOCKS[args.clock]) for n, child in children.items()}
    found = [
        f"{statistics.median(each):.1f} ({children[name].last['mode']})"
        for name, each in rates.items()
    ]
    peers = [each for name, each in rates.items() if name != "tfnlp"] if "tfnlp" in rates else []
    return found + [turns.spread(rates["tfnlp"], each) for each in peers]


def take_turns(case, modes):
    """The work of a library: it chooses a mode in the first turn, and predicts in the others.

    Args:
        case: what the process is told.
        modes: dict of name to a function of lists of ids that returns logits `[N, 2]`.
    """
    texts, chosen = texts_of(case), []
    wanted = [name for name in modes if any(word in name for word in case["modes"] or ())]

    def fastest():
        seconds = {}
        for name in wanted or modes:
            modes[name](texts)  # traces and compiles
            started = time.perf_counter()
            logits = modes[name](texts)
            seconds[name] = time.perf_counter() - started
            # In the texts' order: each is what it is alone.
            np.testing.assert_allclose(logits[5:6], modes[name](texts[5:6]), atol=0.05)
        return min(seconds, key=seconds.get)

    def predict():
        if chosen:
            modes[chosen[0]](texts)
        else:
            chosen.append(fastest())
        return {"mode": chosen[0]}

    turns.take(case["rounds"], predict, len(texts))


def texts_of(case):
    """Lists of token ids."""
    random = np.random.default_rng(0)
    sizes = np.full(case["texts"], LONGEST)
    if case["lengths"] == "mixed":
        sizes = random.integers(SHORTEST, LONGEST + 1, case["texts"])
    return [random.integers(1000, VOCAB["bert"], size) for size in sizes]


def in_batches(texts, rows, logits_of, multiple=1):
    """Logits `[N, 2]` of texts, short ones first, by a function of ids and mask `[B, T]`."""
    found = np.zeros((len(texts), CLASSES), np.float32)
    order = np.argsort([len(text) for text in texts], kind="stable")
    for first in range(0, len(order), rows):
        which = order[first : first + rows]
        length = -(-len(texts[which[-1]]) // multiple) * multiple
        ids = np.zeros((len(which), length), np.int64)
        for place, number in zip(ids, which, strict=True):
            place[: len(texts[number])] = texts[number]
        found[which] = logits_of(ids, (ids > 0).astype(np.int64))
    return found


def tfnlp_modes(case):
    import keras

    from tfnlp import data, models, training

    dtype = policy_of(case["dtype"])
    keras.config.set_dtype_policy(dtype)
    sizes = case["layers"], case["hidden"], case["heads"], 4 * case["hidden"]
    encoder = models.bert(case["vocab"], *sizes)
    predict = training.predictor(models.bert_task(encoder, "class", CLASSES))

    def predicted(texts):
        columns = {
            "input_word_ids": texts,
            "input_mask": [np.ones_like(text) for text in texts],
            "input_type_ids": [np.zeros_like(text) for text in texts],
        }
        sizes = [len(text) for text in texts]
        lengths = data.bucket_lengths(sizes, len(sizes), multiple=1)
        batches = data.TaskBatches(columns, {}, batch_size=case["batch"], lengths=lengths)
        return predict(batches)["class_logits"]

    return {dtype: predicted}


def keras_hub_modes(case):
    import keras
    import keras_hub
    import tensorflow as tf

    mixed, rows, modes = case["lengths"] == "mixed", case["batch"], {}
    sizes = case["layers"], case["heads"], case["hidden"], 4 * case["hidden"]
    narrow = ("mixed_bfloat16", "bfloat16")

    def function(model, rows, jit):
        names = ("token_ids", "padding_mask", "segment_ids")
        specs = {name: tf.TensorSpec([None, LONGEST if jit else None], "int32") for name in names}
        call = tf.function(
            lambda x: tf.cast(model(x, training=False), "float32"),
            input_signature=[specs], jit_compile=jit,
        )  # fmt: skip

        def logits(ids, mask):
            arrays = (ids, mask, np.zeros_like(ids))
            inputs = {n: tf.constant(x, "int32") for n, x in zip(names, arrays, strict=True)}
            return call(inputs).numpy()

        return lambda texts: in_batches(texts, rows, logits, multiple=8)

    for dtype in ("float32",) if case["dtype"] == "float32" else narrow:
        keras.config.set_dtype_policy(dtype)
        backbone = keras_hub.models.BertBackbone(case["vocab"], *sizes, max_sequence_length=512)
        model = keras_hub.models.BertTextClassifier(
            backbone, num_classes=CLASSES, preprocessor=None
        )
        modes[f"{dtype}, tf.function, {rows}"] = function(model, rows, False)
        if mixed and rows != 8:
            modes[f"{dtype}, tf.function, 8"] = function(model, 8, False)
        if not mixed:
            modes[f"{dtype}, XLA, {rows}"] = function(model, rows, True)
    return modes


def work(case):
    """A process of tfnlp or keras-hub."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    modes = tfnlp_modes(case) if case["library"] == "tfnlp" else keras_hub_modes(case)
    take_turns(case, modes)


if __name__ == "__main__":
    work(json.loads(sys.argv[1])) if sys.argv[1:2] and sys.argv[1][0] == "{" else main()
