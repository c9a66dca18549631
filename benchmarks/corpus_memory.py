"""Memory and time to the first batch of training, for texts of several sizes.

    python -m benchmarks.corpus_memory [--input FILE ...] [--megabytes 10 100 1000]
        [--families bert gpt]

Writes texts of these sizes: random stretches of the documents of FILE, in random order. For each
text and family a new process learns a vocabulary, tokenizes the text and makes the first batch, as
`tfnlp pretrain` does; another process starts on the same text again. Prints for both the seconds
from the start of the process, which imports TensorFlow, to the first batch; the processor's seconds
among them; the largest anonymous memory, and the largest memory with mapped files, which the system
takes back when it needs to; and the bytes on disk.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

SETTINGS = {
    "bert": {"size": "mini", "vocab_size": 8000},
    "gpt": {"size": "mini", "vocab_size": 8000},
    "elmo": {"max_vocab": 20_000},
    "nnlm": {"max_vocab": 20_000},
    "word2vec": {},
}
_STRETCH = 200  # paragraphs of a document that follow each other, at most


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", default=["book:the_secret_garden"])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--families", nargs="+", default=["bert", "gpt"], choices=SETTINGS)
    parser.add_argument("--child", nargs=2, metavar=("FAMILY", "TEXT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(*arguments.child)
    print(
        f"{'family':9s}{'text MB':>8s} {'start':7s}{'tokens':>13s}{'seconds':>9s}"
        f"{'of CPU':>8s}"
        f"{'anonymous MB':>14s}{'resident MB':>13s}{'disk MB':>9s}{'a token':>9s}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in arguments.megabytes:
            text = os.path.join(folder, "text.txt")
            write_text(text, arguments.input, size * 1_000_000)
            for family in arguments.families:
                with tempfile.TemporaryDirectory(dir=folder) as cache:
                    for start in ("first", "second"):
                        print(row(family, text, size, start, cache), flush=True)


def write_text(path, sources, size):
    """Write `size` bytes of prose or a little more."""
    from tfnlp.data import read_documents

    documents = [d for source in sources for d in read_documents(source, paragraphs=True)]
    rng = np.random.default_rng(0)
    with open(path, "w", encoding="utf-8") as file:
        while file.tell() < size:
            document = documents[rng.integers(len(documents))]
            first = rng.integers(len(document))
            stretch = document[first : first + rng.integers(5, _STRETCH)]
            if np.mean([len(paragraph) for paragraph in stretch]) < 200:  # of sentences
                stretch = [" ".join(stretch[i : i + 5]) for i in range(0, len(stretch), 5)]
            file.write("\n\n".join(stretch) + "\n\n\n")


def row(family, text, size, start, cache):
    """Measure in a new process; return a line of the table."""
    command = [sys.executable, "-m", "benchmarks.corpus_memory", "--child", family, text]
    began = time.time()
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        env={**os.environ, "TFNLP_CACHE": cache, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    found = json.loads(done.stdout.splitlines()[-1])
    disk = sum(path.stat().st_size for path in pathlib.Path(cache).rglob("*") if path.is_file())
    return (
        f"{family:9s}{size:8,} {start:7s}{found['tokens']:13,}{found['ready'] - began:9.1f}"
        f"{found['cpu']:8.1f}"
        f"{found['anonymous'] / 1e6:14,.0f}{found['resident'] / 1e6:13,.0f}{disk / 1e6:9,.0f}"
        f"{disk / found['tokens']:9.2f}"
    )


def child(family, text):
    """Make the first batch and print what it took."""
    done, most = threading.Event(), [0]

    def watch():
        while not done.wait(0.02):
            most[0] = max(most[0], status("RssAnon"))

    thread = threading.Thread(target=watch)
    thread.start()
    import tensorflow as tf

    from tfnlp.families import FAMILIES

    with tempfile.TemporaryDirectory() as folder:
        config = FAMILIES[family].config.make(
            text=text, output=os.path.join(folder, "run"), **SETTINGS[family]
        )
        prepared = FAMILIES[family].prepare(config, None, tf.distribute.get_strategy())
        next(iter(prepared.batches.dataset(0)))
        ready, cpu = time.time(), time.process_time()
    done.set()
    thread.join()
    corpus = prepared.corpus
    found = {
        "tokens": corpus.get("tokens", corpus.get("words")),
        "ready": ready,
        "cpu": cpu,
        "anonymous": most[0],
        "resident": status("VmHWM"),
    }
    print(json.dumps(found))


def status(name):
    """Return bytes of a line of this process's status."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"the system does not state {name}")


if __name__ == "__main__":
    main()
