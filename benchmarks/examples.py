"""How fast are examples made, and does reading them outrun making them while training?

    python -m benchmarks.examples [--input FILE ...] [--copies N] [--workers 1 2]

Makes BERT's examples of the text with so many worker processes, in turn and from nothing, and
prints MB of text and examples a second and their ratio; then, side by side, examples a second of
`PairShards`, of `SentencePairs` from a corpus in memory, and of the text: tokenized, paired and
packed on the fly, as it would have to be every epoch if it did not fit into memory.
"""

import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

from benchmarks.timing import measure
from tfnlp.data import PairShards, SentencePairs, TokenizedCorpus, read_documents
from tfnlp.families import FAMILIES
from tfnlp.runs.examples import write_examples
from tfnlp.text import WordPieceTokenizer, read_vocabulary, train_wordpiece, write_vocabulary

BATCHES = 20  # a call; opening an iterator is not to be measured
BATCH = 32


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", default=["book:the_secret_garden"])
    parser.add_argument("--copies", type=int, default=8, help="files, each of all the text")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        documents = list(read_documents(arguments.input))
        vocabulary = os.path.join(folder, "vocab.txt")
        write_vocabulary(vocabulary, train_wordpiece((s for d in documents for s in d), 8000))
        text = "\n\n".join("\n".join(document) for document in documents)
        files = [os.path.join(folder, f"{number}.txt") for number in range(arguments.copies)]
        for path in files:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        made = making(folder, files, vocabulary, arguments)
        reading(made, files, vocabulary, arguments.rounds)


def making(folder, files, vocabulary, arguments):
    """Prints the throughput with each number of workers; returns the last folder."""
    megabytes = sum(map(os.path.getsize, files)) / 1e6
    seconds = {}
    for workers in arguments.workers:
        output = os.path.join(folder, f"examples{workers}")
        family = FAMILIES["bert"]
        config = family.examples.config.make(
            text=files, layout="lines", vocab=vocabulary, output=output, shards=8,
            epochs=arguments.epochs, workers=workers,
        )  # fmt: skip
        start = time.perf_counter()
        write_examples(family, config)
        seconds[workers] = time.perf_counter() - start
        examples = read_examples(output, vocabulary).counts["train"]["examples"]
        print(
            f"{workers} worker(s): {megabytes:.1f} MB of text, {arguments.epochs} epochs, "
            f"{examples:,} examples in {seconds[workers]:.1f} s: "
            f"{megabytes / seconds[workers]:.2f} MB/s, {examples / seconds[workers]:,.0f} "
            f"examples/s, {seconds[arguments.workers[0]] / seconds[workers]:.2f} times as fast as "
            f"{arguments.workers[0]}",
            flush=True,
        )
    return output


def read_examples(folder, vocabulary):
    return PairShards(folder, WordPieceTokenizer(read_vocabulary(vocabulary)), batch_size=BATCH)


def reading(folder, files, vocabulary, rounds):
    """Prints examples a second of the three ways to a batch, and ratios."""
    tokenizer = WordPieceTokenizer(read_vocabulary(vocabulary))
    corpus = TokenizedCorpus.build(read_documents(files[0], "lines"), tokenizer, progress=False)
    sources = {
        "from shards": read_examples(folder, vocabulary),
        "from a corpus in memory": SentencePairs(corpus, tokenizer, batch_size=BATCH),
    }
    calls, examples = {}, {}
    for name, source in sources.items():
        batches = iter(source.dataset())

        def read(batches=batches):
            for _ in range(BATCHES):
                next(batches)

        calls[name], examples[name] = read, BATCH * BATCHES

    def on_the_fly():
        documents = read_documents(files[0], "lines")
        corpus = TokenizedCorpus.build(documents, tokenizer, progress=False)
        pairs = SentencePairs(corpus, tokenizer, batch_size=BATCH)
        for _ in pairs.evaluation_batches(10**9):
            pass

    calls["from text, tokenized on the fly"] = on_the_fly
    pairs = sources["from a corpus in memory"]
    examples["from text, tokenized on the fly"] = pairs.steps_per_epoch * BATCH
    timings = measure(calls, rounds=rounds)
    speeds = {name: examples[name] / timing.median for name, timing in timings.items()}
    for name, speed in speeds.items():
        print(f"{name:34s}{speed:10,.0f} examples/s, shards {speeds['from shards'] / speed:5.2f} x")


if __name__ == "__main__":
    main()
