"""Losses of word vectors beside gensim's, and GloVe: speed and similarity on WikiText-2.

    python -m benchmarks.word_losses [--data DIR] [--epochs 3] [--cells 6] [ROW ...]

gensim must be installed (with its compiled routines). All rows are trained with one thread on the
same lower-cased sentences without `<unk>`, dimension 100, words from 5 occurrences on: skip-gram
with window 5 and 5 negatives or a Huffman tree, GloVe with window 10 and x_max 10. They are trained
one after the other, in the order of the rows. Speeds are words of the text over the processor time
of training alone, which other work on the machine changes less than the time on the clock.
Similarity is Spearman's correlation over the pairs whose words are known.
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["KERAS_BACKEND"] = "tensorflow"

import gensim
import keras
import numpy as np
import tensorflow as tf

from tfnlp import models, tasks, training
from tfnlp.data import (
    CooccurrenceBatches,
    Cooccurrences,
    WordBlocks,
    WordCorpus,
    frequent_words,
    read_similarities,
)
from tfnlp.layers.huffman import huffman_tree
from tfnlp.text import WordVectors

SIMILARITY = ("MEN-TR-3k", "WS-353-ALL", "RG-65")
SEED = 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    folder = pathlib.Path(__file__).parents[2] / "shared" / "data"
    default = os.environ.get("TFNLP_SHARED_DATA", folder)
    parser.add_argument("--data", default=default, type=pathlib.Path, help="folder of data sets")
    parser.add_argument("--epochs", type=int, default=3, help="of word2vec")
    parser.add_argument("--cells", type=int, default=6, help="epochs of GloVe")
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    arguments = parser.parse_args()
    for threads in (
        tf.config.threading.set_intra_op_parallelism_threads,
        tf.config.threading.set_inter_op_parallelism_threads,
    ):
        threads(1)
    bench = Bench(arguments)
    print(f"| | speed | processor time | {' | '.join(SIMILARITY)} |\n|{'---|' * 6}", flush=True)
    for row in arguments.rows:
        vectors, speed, seconds = ROWS[row](bench)
        found = [tasks.rate_pairs(vectors, pairs) for pairs in bench.pairs]
        cells = " | ".join(f"{rating.spearman:.3f}" for rating in found)
        print(f"| {row} | {speed} | {seconds:.0f} s | {cells} |", flush=True)
    seen = " | ".join(f"{rating.seen}/{rating.asked}" for rating in found)
    print(f"| pairs with known words | | | {seen} |\n\ngensim {gensim.__version__}", flush=True)


class Bench:
    """The text, and what is asked of vectors."""

    def __init__(self, arguments):
        path = arguments.data / "lm" / "wikitext-2" / "train.txt"
        lines = path.read_text(encoding="utf-8").lower().splitlines()
        self.split = [[w for w in line.split() if w != "<unk>"] for line in lines if line.strip()]
        sentences = [" ".join(words) for words in self.split]
        self.corpus = WordCorpus.build(sentences, frequent_words(sentences, min_count=5))
        self.words, self.epochs = sum(map(len, self.split)), arguments.epochs
        self.cell_epochs = arguments.cells
        files = (arguments.data / "wordsim" / f"EN-{name}.txt" for name in SIMILARITY)
        self.pairs = [read_similarities(file) for file in files]

    def gensim(self, hs):
        """Train gensim's skip-gram with negatives or, with `hs` 1, a tree."""
        made = gensim.models.Word2Vec(
            vector_size=100, window=5, negative=0 if hs else 5, hs=hs, sg=1, min_count=5,
            sample=1e-3, alpha=0.025, workers=1, seed=SEED,
        )  # fmt: skip
        made.build_vocab(self.split)
        start = time.process_time()
        made.train(self.split, total_examples=len(self.split), epochs=self.epochs)
        return WordVectors(list(made.wv.index_to_key), np.array(made.wv.vectors)), *self._speed(
            start
        )

    def ours(self, loss):
        """Train the skip-gram of `tfnlp pretrain word2vec --loss`."""
        keras.utils.set_random_seed(SEED)
        blocks, more = WordBlocks(self.corpus, seed=SEED), {}
        if loss == "hierarchical":
            more = {"depth": huffman_tree(self.corpus.counts).shape[1]}
        model = models.word2vec(len(self.corpus.words), loss=loss, **more)
        if loss != "negative":
            model.get_layer("loss").set_counts(self.corpus.counts)
        steps = self.epochs * blocks.steps_per_epoch
        task = tasks.Word2Vec(model, blocks.words_per_block)
        start = fit(task, blocks, steps, training.linear(0.3, steps, 0), 96 * 32 * 6.0)
        table = np.array(model.get_layer("word_embedding").embeddings)
        return WordVectors(self.corpus.words, table), *self._speed(start)

    def glove(self):
        """Train what `tfnlp pretrain glove --x-max 10` does."""
        keras.utils.set_random_seed(SEED)
        start = time.process_time()
        cells = Cooccurrences.count(self.corpus)
        print(f"counting {len(cells.rows):,} cells: {time.process_time() - start:.1f} s")
        model = models.glove(len(self.corpus.words), x_max=10.0)
        batches = CooccurrenceBatches(cells, batch_size=4096, seed=SEED)
        steps = int(self.cell_epochs * batches.steps_per_epoch)
        start = fit(tasks.GloVe(model), batches, steps, 0.3, 4096.0)
        table = np.array(model.get_layer("word_embedding").embeddings)
        table += np.array(model.get_layer("loss").kernel)
        seconds = time.process_time() - start
        return (
            WordVectors(self.corpus.words, table),
            f"{steps * 4096 / seconds:,.0f} cells/s",
            seconds,
        )

    def _speed(self, start):
        seconds = time.process_time() - start
        return f"{self.epochs * self.words / seconds:,.0f} words/s", seconds


def fit(task, batches, steps, rate, loss_scale):
    """Train with the settings of the command; return the processor time at the start."""
    trainer = training.Trainer(
        task, training.RowwiseAdagrad(), rate, clip_norm=None, steps_per_call=100,
        loss_scale=loss_scale,
    )  # fmt: skip
    start = time.process_time()
    trainer.fit(batches, steps, progress=False)
    return start


ROWS = {
    "gensim, negative sampling": lambda bench: bench.gensim(0),
    "tfnlp, negative sampling": lambda bench: bench.ours("negative"),
    "gensim, hierarchical": lambda bench: bench.gensim(1),
    "tfnlp, hierarchical": lambda bench: bench.ours("hierarchical"),
    "tfnlp, nce": lambda bench: bench.ours("nce"),
    "tfnlp, GloVe": lambda bench: bench.glove(),
}

if __name__ == "__main__":
    main()
