"""Prediction of a BERT classifier: tfnlp beside Hugging Face transformers and keras-hub.

    python -m benchmarks.prediction [--peer-python PYTHON] [--only 12x768] [--only float32]
        [--rounds 4] [--texts 256] [--output DIR]

Random weights, the same token ids for all: "mixed" has texts of 10 to 128 tokens, the others have
128 tokens each, in batches of 1, 8 and 32. A turn is the prediction of all texts, from ids in their
own order to logits in this order; it includes sorting and padding. Each library is a process of its
own with as many threads; they take turns, the order reversed each round. Before that a library
tries its modes on the same texts, and goes on in the fastest one:

    tfnlp       `tfnlp.tasks.predictor`, as `TaskRun.predict` calls it
    torch       transformers, sorted by length and padded for each batch: eager (its SDPA
                attention) and `torch.compile`, batches of 32 and of 8 (mixed texts). In bfloat16
                the weights are bfloat16, or float32 under `torch.autocast`.
    keras-hub   sorted by length and padded to multiples of 8 for each batch: `tf.function`, with
                XLA where all texts have one length, and `predict`; in bfloat16 `mixed_bfloat16`
                and `bfloat16`

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

ROOT = pathlib.Path(__file__).parents[1]
VOCAB, SHORTEST, LONGEST, CLASSES = 30522, 10, 128, 2
SIZES = {"12x768": (12, 768, 12), "4x256": (4, 256, 4)}  # layers, hidden size, heads
# Size, lengths, rows of a batch (of the longest texts), and how many times the number of texts.
CASES = [
    ("12x768", "mixed", 32, 1),
    ("4x256", "mixed", 32, 4),
    ("4x256", "128", 1, 1),
    ("4x256", "128", 8, 1),
    ("4x256", "128", 32, 1),
]
DTYPES = ("float32", "bfloat16")
LIBRARIES = {
    "tfnlp": "prediction_tfnlp",
    "torch": "prediction_torch",
    "keras-hub": "prediction_keras_hub",
}
CLOCKS = {"wall": "seconds", "cpu": "cpu"}  # what a turn calls them


def main(argv=None):
    parser = argparse.ArgumentParser(prog="prediction", description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", default=os.environ.get("PEER_PYTHON", sys.executable),
                        metavar="PYTHON", help="a Python with torch and transformers "
                        "(default: $PEER_PYTHON, else this one)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=4, help="turns of a library that count")
    parser.add_argument("--texts", type=int, default=256, help="of the mixed case at 12x768")
    parser.add_argument("--only", action="append", default=[], help="cases whose name holds this")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    parser.add_argument("--batch-size", type=int, help="rows, in place of those of the cases")
    parser.add_argument("--modes", nargs="+", metavar="WORD", help="of the peers only modes whose "
                        "name holds one of these words")  # fmt: skip
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument(
        "--output", default="runs/prediction", metavar="DIR", help="of logs, results"
    )
    args = parser.parse_args(argv)
    output = pathlib.Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    found = []
    peers = [name for name in args.libraries if name != "tfnlp"]
    print(f"| prediction | {' | '.join([*args.libraries, *(f'tfnlp / {p}' for p in peers)])} |")
    print("|---|" + "---:|" * (len(args.libraries) + len(peers)), flush=True)
    try:
        for size, lengths, rows, times in CASES:
            batch = args.batch_size or rows
            for dtype in DTYPES:
                name = f"{size}, {lengths}, batches of {batch}, {dtype}"
                if not all(word in name for word in args.only):
                    continue
                case = dict(size=size, lengths=lengths, batch=batch, dtype=dtype)
                case.update(texts=args.texts * times, modes=args.modes)
                found.append({"name": name, **case, "turns": measured(case, args, output)})
                (output / "results.json").write_text(json.dumps(found), encoding="utf-8")
                print(row(found[-1], CLOCKS[args.clock]), flush=True)
    except (ValueError, OSError) as error:
        print(f"prediction: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


def measured(case, args, output):
    """The turns of every library, the one that tries its modes left out: dict to list of dicts."""
    children = {}
    for name in args.libraries:
        python = args.peer_python if name == "torch" else sys.executable
        told = json.dumps({**case, "rounds": args.rounds})
        environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
        children[name] = turns.Child(
            [python, "-m", f"benchmarks.prediction_{name.replace('-', '_')}", told],
            output / f"{name}.log", ROOT, {**environment, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
    turns.alternate(list(children.values()))
    return {name: child.turns[1:] for name, child in children.items()}


def row(case, clock):
    """The line of a case: texts a second and the mode of each library; ratios."""
    rates = {
        name: [turn["examples"] / turn[clock] for turn in found]
        for name, found in case["turns"].items()
    }
    cells = [
        f"{statistics.median(each):.1f} ({case['turns'][name][-1]['mode']})"
        for name, each in rates.items()
    ]
    for name, theirs in rates.items():
        if name != "tfnlp" and "tfnlp" in rates:
            ratios = [a / b for a, b in zip(rates["tfnlp"], theirs, strict=True)]
            cells.append(
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )
    return f"| {case['name']} | {' | '.join(cells)} |"


def take_turns(case, modes):
    """The work of a library: it chooses a mode in the first turn, and predicts in the others.

    Args:
        case: as `measured` gives it.
        modes: dict of name to a function of lists of ids that returns logits `[N, 2]`.
    """
    each, texts = turns.Turns(1), texts_of(case)
    seconds = {}
    wanted = [name for name in modes if any(word in name for word in case["modes"] or ())]
    for name in wanted or modes:
        modes[name](texts)  # traces and compiles
        started = time.perf_counter()
        logits = modes[name](texts)
        seconds[name] = time.perf_counter() - started
        # In the texts' order: each is what it is alone.
        alone = modes[name](texts[5:6])
        np.testing.assert_allclose(logits[5:6], alone, atol=0.05)
        print(name, seconds[name], flush=True)
    mode = min(seconds, key=seconds.get)
    each.report(mode=mode)
    for turn in range(case["rounds"]):
        each.wait()
        modes[mode](texts)
        each.examples = len(texts)
        each.report(mode=mode, done=turn == case["rounds"] - 1)


def texts_of(case):
    """Lists of token ids."""
    random = np.random.default_rng(0)
    sizes = np.full(case["texts"], LONGEST)
    if case["lengths"] == "mixed":
        sizes = random.integers(SHORTEST, LONGEST + 1, case["texts"])
    return [random.integers(1000, VOCAB, size) for size in sizes]


def sorted_batches(texts, rows, multiple=1):
    """Yields what the peers read, short texts first: (which texts, ids [B, T], mask [B, T])."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    for first in range(0, len(order), rows):
        which = order[first : first + rows]
        length = -(-len(texts[which[-1]]) // multiple) * multiple
        ids = np.zeros((len(which), length), np.int64)
        for place, number in zip(ids, which, strict=True):
            place[: len(texts[number])] = texts[number]
        yield which, ids, (ids > 0).astype(np.int64)


def in_batches(texts, rows, logits_of, multiple=1):
    """Logits `[N, 2]` of texts, by a function of ids and mask."""
    found = np.zeros((len(texts), CLASSES), np.float32)
    for which, ids, mask in sorted_batches(texts, rows, multiple):
        found[which] = logits_of(ids, mask)
    return found


if __name__ == "__main__":
    sys.exit(main())
