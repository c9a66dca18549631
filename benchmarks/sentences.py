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
    print("| | tfnlp | sentence-transformers | ratio | cosine |\n|---|---:|---:|---|---|")
    for dtype, modes in MODES.items():
        children = {}
        for library, mode in ((name, mode) for name in modes for mode in modes[name]):
            told = dict(
                library=library, mode=mode, dtype=dtype, model=args.model, texts=args.texts,
                count=args.count, rounds=args.rounds,
                vectors=str(output / f"{library}-{mode}-{dtype}.npy"),
            )  # fmt: skip
            python = sys.executable if library == "tfnlp" else args.peer_python
            children[library, mode] = turns.Child(
                "sentences", told, output / f"{library} {mode}.log", python
            )
        turns.alternate(children.values())
        print(row(dtype, children, output), flush=True)


def row(dtype, children, output):
    """The line of a dtype."""
    rates = {name: turns.rates(child.turns[1:]) for name, child in children.items()}
    best = [
        max((n for n in rates if n[0] == library), key=lambda n: statistics.median(rates[n]))
        for library in MODES[dtype]
    ]
    cells = [f"{statistics.median(rates[name]):.1f} ({name[1]})" for name in best]
    one, two = (
        np.load(output / f"{library}-{mode}-{dtype}.npy").astype("float64")
        for library, mode in best
    )
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    cosine = np.abs(1 - (one * two).sum(1) / norms).max()
    ratio = turns.spread(*(rates[name] for name in best))
    return f"| {dtype} | {' | '.join(cells)} | {ratio} | {cosine:.1e} |"


def work(case):
    """A process: the vectors of the same texts, once in each turn."""
    with open(case["texts"], encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in file][: case["count"]]
    embed = of_tfnlp(case) if case["library"] == "tfnlp" else of_sentence_transformers(case)
    turns.take(case["rounds"], lambda: np.save(case["vectors"], embed(texts)), len(texts))


def of_tfnlp(case):
    import tfnlp

    return tfnlp.load(case["model"], case["mode"]).embed


def of_sentence_transformers(case):
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    kwargs = {"dtype": getattr(torch, case["dtype"])}
    model = SentenceTransformer(case["model"], device="cpu", model_kwargs=kwargs)
    return lambda texts: (
        model.encode(texts, batch_size=case["mode"], convert_to_tensor=True).float().cpu().numpy()
    )


if __name__ == "__main__":
    work(json.loads(sys.argv[1])) if sys.argv[1:2] and sys.argv[1][0] == "{" else main()
