"""Sentence vectors here beside sentence-transformers': the same weights, texts and machine.

    python -m benchmarks.sentences --model FOLDER --texts FILE --peer-python PYTHON
        [--count 2000] [--rounds 4]

FOLDER is one of sentence-transformers, FILE has a text a line. A turn is the vectors of all texts,
from strings to an array, as `embed` and `encode` give them; both sort by length. Each library is a
process of its own with as many threads; they take turns, the order reversed each round.
sentence-transformers has batches of 32, its default, and of 8; the faster counts. In bfloat16 tfnlp
is the faster of `mixed_bfloat16` and `bfloat16`, sentence-transformers has bfloat16 weights.
`cosine` is the largest distance of 1 from the cosine of both vectors of a text.
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
MODES = {
    "float32": {"tfnlp": ["float32"], "sentence-transformers": [32, 8]},
    "bfloat16": {"tfnlp": ["mixed_bfloat16", "bfloat16"], "sentence-transformers": [32, 8]},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, metavar="FOLDER")
    parser.add_argument("--texts", required=True, metavar="FILE")
    parser.add_argument("--peer-python", required=True, metavar="PYTHON")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--output", default="runs/sentences", metavar="DIR")
    args = parser.parse_args()
    output = pathlib.Path(args.output).resolve()
    output.mkdir(parents=True, exist_ok=True)
    print(
        "| | tfnlp | sentence-transformers | ratio | cosine |\n|---|---:|---:|---|---|", flush=True
    )
    for dtype, modes in MODES.items():
        children = {}
        for library, each in modes.items():
            for mode in each:
                python = sys.executable if library == "tfnlp" else args.peer_python
                name = f"{library} {mode}"
                told = dict(
                    library=library, mode=mode, dtype=dtype, model=str(args.model),
                    texts=args.texts, count=args.count, rounds=args.rounds,
                    vectors=str(output / f"{library}-{mode}-{dtype}.npy"),
                )  # fmt: skip
                environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "HF_HUB_OFFLINE": "1"}
                children[name] = turns.Child(
                    [python, "-m", "benchmarks.sentences_work", json.dumps(told)],
                    output / f"{name}.log", ROOT, {**environment, "TF_CPP_MIN_LOG_LEVEL": "3"},
                )  # fmt: skip
        turns.alternate(list(children.values()))
        print(row(dtype, children, output), flush=True)


def row(dtype, children, output):
    rates = {
        name: [turn["examples"] / turn["seconds"] for turn in child.turns[1:]]
        for name, child in children.items()
    }
    best = {}
    for library in ("tfnlp", "sentence-transformers"):
        names = [name for name in rates if name.startswith(f"{library} ")]
        best[library] = max(names, key=lambda name: statistics.median(rates[name]))
    ours, theirs = (rates[name] for name in best.values())
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    one, two = (
        np.load(output / f"{name.replace(' ', '-')}-{dtype}.npy").astype("float64")
        for name in best.values()
    )
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    cosine = np.abs(1 - (one * two).sum(1) / norms).max()
    cells = [f"{statistics.median(rates[n]):.1f} ({n.split(' ', 1)[1]})" for n in best.values()]
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"| {dtype} | {' | '.join(cells)} | {spread} | {cosine:.1e} |"


if __name__ == "__main__":
    main()
