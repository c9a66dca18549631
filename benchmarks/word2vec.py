"""word2vec here beside gensim's: speed and quality in the same run.

    python -m benchmarks.word2vec [--data DIR] [--seeds 3] [--epochs 5]

gensim must be installed (with its compiled routines); it runs with a worker for every core. Both
train with the same settings on the same sentences: WikiText-2 and English novels, lower-cased, of
which one in fifty is held out. They take turns, seed by seed, so that both see the same machine;
speeds are words of the text, rare and left-out ones included, over the seconds of training alone
(counting words and numbering the text is left out on both sides).

Held-out loss is that of the task, in nats a pair; gensim's vectors are put into the same model for
it. Similarity is Spearman's correlation over the pairs whose words are known; analogies are
answered among the 30,000 most frequent words.
"""

import argparse
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import gensim
import keras
import numpy as np
from gensim.models import Word2Vec
from gensim.models.word2vec import FAST_VERSION

from tfnlp import models, objectives, training
from tfnlp.data import WordBlocks, WordCorpus, frequent_words, read_analogies, read_similarities
from tfnlp.families.word2vec import RECIPES
from tfnlp.text import WordVectors, answer_analogies, rate_pairs, split_words

SIMILARITY = ("MEN-TR-3k", "WS-353-SIM", "WS-353-REL", "RG-65")
HELD_OUT = 0.02
PAIRS = {"skipgram": 6.0, "cbow": 1.0}  # what the loss is multiplied by is Adagrad's


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = os.environ.get(
        "TFNLP_SHARED_DATA", pathlib.Path(__file__).parents[2] / "shared" / "data"
    )
    parser.add_argument("--data", default=default, type=pathlib.Path, help="folder of data sets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--architecture", nargs="+", default=["skipgram", "cbow"])
    parser.add_argument("--sentences", type=int, help="only so many, to try it out")
    arguments = parser.parse_args()
    if FAST_VERSION < 0:
        raise ValueError("gensim runs without its compiled routines; reinstall it")
    bench = Bench(arguments.data, arguments.sentences)
    for architecture in arguments.architecture:
        rows = {"gensim": [], "tfnlp": []}
        for seed in range(1, arguments.seeds + 1):
            for name, train in (("gensim", bench.gensim), ("tfnlp", bench.ours)):
                rows[name].append(train(architecture, seed, arguments.epochs))
                print(architecture, seed, name, rows[name][-1], flush=True)
        text = (
            f"{architecture}: {bench.words:,} words, {arguments.epochs} epochs, {arguments.seeds} "
            f"seeds, {os.cpu_count()} cores, gensim {gensim.__version__}; mean ± standard "
            f"deviation\n\n{table(rows)}"
        )
        print(text, flush=True)


class Bench:
    """The text, what is asked of vectors, and both ways to train them."""

    def __init__(self, data, limit=None):
        sentences = list(_sentences(data))[:limit]
        held = np.random.default_rng(0).random(len(sentences)) < HELD_OUT
        train = [s for s, out in zip(sentences, held, strict=True) if not out]
        valid = [s for s, out in zip(sentences, held, strict=True) if out]
        vocabulary = frequent_words(train, min_count=5)
        self.corpus = WordCorpus.build(train, vocabulary)
        self.valid = WordCorpus.build(valid, vocabulary)
        self.split = [sentence.split() for sentence in train]
        self.words = sum(map(len, self.split))
        folder = data / "wordsim"
        self.pairs = {n: read_similarities(folder / f"EN-{n}.txt") for n in SIMILARITY}
        self.questions = read_analogies(folder / "questions-words.txt")

    def gensim(self, architecture, seed, epochs):
        """Trains gensim's and returns a dict of figures."""
        made = Word2Vec(
            vector_size=100, window=5, negative=5, sg=int(architecture == "skipgram"), min_count=5,
            sample=1e-3, alpha=0.025, workers=os.cpu_count(), seed=seed,
        )  # fmt: skip
        made.build_vocab(self.split)
        start = time.perf_counter()
        made.train(self.split, total_examples=len(self.split), epochs=epochs)
        seconds = time.perf_counter() - start
        order = [made.wv.key_to_index[word] for word in self.corpus.words]
        weights = [made.wv.vectors[order], made.syn1neg[order]]
        return {"speed": epochs * self.words / seconds, **self._quality(architecture, weights)}

    def ours(self, architecture, seed, epochs):
        """Trains tfnlp's and returns a dict of figures."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(seed)
        samples, rate = (RECIPES[architecture][name] for name in ("samples", "learning_rate"))
        blocks = WordBlocks(self.corpus, samples=samples, seed=seed)
        steps = epochs * blocks.steps_per_epoch
        size = len(self.corpus.words)
        model = models.word2vec(size, architecture=architecture, samples=samples)
        trainer = training.Trainer(
            objectives.Word2Vec(model, blocks.words_per_block),
            training.RowwiseAdagrad(),
            training.linear(rate, steps, 0),
            clip_norm=None,
            steps_per_call=100,
            loss_scale=blocks.batch_size * blocks.block * PAIRS[architecture],
        )
        start = time.perf_counter()
        trainer.fit(blocks, steps, progress=False)
        seconds = time.perf_counter() - start
        quality = self._quality(architecture, model.get_weights())
        return {"speed": epochs * self.words / seconds, **quality}

    def _quality(self, architecture, weights):
        model = models.word2vec(len(self.corpus.words), architecture=architecture)
        model.set_weights(weights)
        held_out = WordBlocks(self.valid, counts=self.corpus.counts, seed=1)
        trainer = training.Trainer(objectives.Word2Vec(model), training.RowwiseAdagrad(), 0.1)
        loss = trainer.evaluate(held_out.evaluation_batches())["loss"]
        vectors = WordVectors(self.corpus.words, np.array(weights[0]), self.corpus.counts)
        found = {name: rate_pairs(vectors, pairs) for name, pairs in self.pairs.items()}
        answers = answer_analogies(vectors, self.questions)["total"]
        return {
            "loss": loss,
            **{name: rating.spearman for name, rating in found.items()},
            "analogies": answers.accuracy,
            "seen": {n: f"{r.seen}/{r.asked}" for n, r in found.items()}
            | {"analogies": f"{answers.seen}/{answers.asked}"},
        }


def table(rows):
    """Both libraries, and how much of each set was seen."""
    names = ["", "words/s", "over gensim", "held-out loss", *SIMILARITY, "analogies"]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    speeds = [row["speed"] for row in rows["gensim"]]
    for name, found in rows.items():
        ratio = statistics.median(
            row["speed"] / speed for row, speed in zip(found, speeds, strict=True)
        )
        cells = [f"{statistics.median(row['speed'] for row in found):,.0f}", f"{ratio:.2f}"]
        for key in ("loss", *SIMILARITY, "analogies"):
            values = [row[key] for row in found]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{statistics.mean(values):.3f} ± {spread:.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    seen = rows["tfnlp"][0]["seen"]
    lines.append(f"| seen | | | | {' | '.join(seen[n] for n in (*SIMILARITY, 'analogies'))} |")
    return "\n".join(lines)


def _sentences(data):
    """Lower-cased sentences with spaces between words and punctuation."""
    with open(data / "lm" / "wikitext-2" / "train.txt", encoding="utf-8") as file:
        for line in file:
            yield " ".join(word for word in line.lower().split() if word != "<unk>")
    with open(data / "lm" / "bert_docs" / "books_train.txt", encoding="utf-8") as file:
        for line in file:
            yield split_words(line.lower())


if __name__ == "__main__":
    main()
