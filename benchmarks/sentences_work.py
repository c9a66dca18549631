"""A process of `benchmarks.sentences`: the vectors of the same texts, once in each turn."""

import json
import os
import sys

import numpy as np

from benchmarks.turns import Turns


def main():
    case = json.loads(sys.argv[1])
    each = Turns(1)
    with open(case["texts"], encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in file][: case["count"]]
    make = of_tfnlp if case["library"] == "tfnlp" else of_sentence_transformers
    embed = make(case)
    np.save(case["vectors"], embed(texts))  # traces; the first turn does not count
    each.stepped(1, len(texts))
    for number in range(case["rounds"]):
        embed(texts)
        each.taken, each.examples = 1, len(texts)
        each.report(done=number == case["rounds"] - 1)
        if number < case["rounds"] - 1:
            each.wait()


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
    main()
