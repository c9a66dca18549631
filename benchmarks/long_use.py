"""Does a process that lives long keep its size?

    python -m benchmarks.long_use [--minutes 60]

Eight threads share a BERT, which embeds, and a classifier made of it, which predicts, and give them
1 to 16 texts of 1 to 40 words. One turn in ten is the load of another model, which is used once and
dropped: a run, a fine-tuned run, an exported module, a checkpoint of Hugging Face, word vectors.
Each turn has one text that all have; its answer must be the one that it had at first.

Every minute the threads end their turns, and a line says what there has been, with the resident
memory and the graphs of functions that are alive; the last line, how much memory has grown since
the first sixth of the time. The exit code is 1 if a turn failed or graphs have become more.
"""

import argparse
import collections
import concurrent.futures
import gc
import os
import pathlib
import random
import resource
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
from tensorflow.python.framework.func_graph import FuncGraph

import tfnlp
from tfnlp import books

THREADS, COUNTED = 8, ("turns", "loads", "failed")
LOADS = 0.1  # share of the turns that load a model
PROBE = "the ship was never seen again"
BERT = dict(
    num_layers=2, hidden_size=64, num_heads=2, max_positions=256, vocab_size=400, seq_length=32,
    batch_size=8, steps=4, layout="lines",
)  # fmt: skip
WORDS = dict(dimension=16, batch_size=64, steps=12, min_count=1, layout="lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=int, default=60)
    minutes = parser.parse_args().minutes
    lines, counts = [], collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        use, start = Use(pathlib.Path(folder)), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            while not lines or lines[-1][0] < minutes:
                draws = [random.Random(f"{len(lines)} {n}") for n in range(THREADS)]
                counts = sum(pool.map(use.minute, draws), counts)
                megabytes = memory()  # collects first
                graphs = sum(isinstance(x, FuncGraph) for x in gc.get_objects())
                lines.append(((time.monotonic() - start) / 60, megabytes, graphs))
                said = ", ".join(f"{counts[name]:,} {name}" for name in COUNTED)
                print("{:.0f} min, {:,.0f} MB, {} graphs,".format(*lines[-1]), said, flush=True)
    since, before, few = next(line for line in lines if line[0] >= minutes / 6)
    until, after, many = lines[-1]
    print(f"{after - before:+,.0f} MB in the last {until - since:.0f} minutes")
    return int(counts["failed"] > 0 or many > few)


class Use:
    """The models, and what became of their use.

    Args:
        folder: where they are written.
    """

    def __init__(self, folder):
        words = books.path().read_text(encoding="utf-8").split()[:6000]
        lines = [" ".join(words[i : i + 11]) for i in range(0, len(words), 11)]
        rows = [(line, "she" if "she" in line else "nobody") for line in lines[:80]]
        paths = {n: str(folder / n) for n in ("run", "task", "module", "checkpoint", "vectors")}
        run = tfnlp.pretrain("bert", lines, paths["run"], **BERT)
        task = tfnlp.finetune(
            "classify", run, rows, output=paths["task"], epochs=1, batch_size=8, max_length=256
        )
        task.export(paths["module"])
        run.export(paths["checkpoint"], format="huggingface")
        tfnlp.pretrain("word2vec", lines, paths["vectors"], **WORDS)
        self.words, self.paths, self.run, self.task = words, paths, run, task
        self.answers = {name: answer(name, tfnlp.load(path)) for name, path in paths.items()}

    def minute(self, draw):
        """Use the models for a minute, with a `random.Random`; return the `COUNTED`."""
        counts, end = collections.Counter(), time.monotonic() + 60
        while time.monotonic() < end:
            name = draw.choice(("run", "task"))
            if load := draw.random() < LOADS:
                name = draw.choice(list(self.paths))
            sizes = [draw.randint(1, 40) for _ in range(draw.randint(0, 15))]
            texts = [" ".join(draw.choices(self.words, k=size)) for size in sizes]
            try:
                model = tfnlp.load(self.paths[name]) if load else getattr(self, name)
                found = answer(name, model, texts)
                np.testing.assert_allclose(found, self.answers[name], atol=1e-4)
            except Exception as error:
                counts["failed"] += 1
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            counts.update(turns=1, loads=load)
        return counts


def answer(name, model, texts=()):
    """Return what a model says of the `PROBE`, given other texts with it."""
    texts = [PROBE, *texts]
    if name == "task":
        return list(model.predict(texts)[0]["probabilities"].values())
    if name == "module":
        return model(texts)["probabilities"][0]
    return model.embed(texts)[0]


def memory():
    """Return the resident memory of this process in MB."""
    for _ in range(4):  # what a collection finalizes may hold more
        gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


if __name__ == "__main__":
    sys.exit(main())
