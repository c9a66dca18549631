"""Word vectors as families: what models share that have one vector for each word."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfnlp import hub, text
from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.sentence_transformers import SentenceSettings
from tfnlp.data import WordCorpus, read_analogies, read_similarities
from tfnlp.data.corpus.arrays import int32_checksum
from tfnlp.families.family import Family, Measured
from tfnlp.families.preparation import (
    Documents,
    Preparation,
    changed,
    documents,
    sentences,
    tokenized,
    tokenized_once,
    tokens_of,
)
from tfnlp.families.sentences import Embedding, of_words
from tfnlp.families.vocabularies import FREQUENT_WORDS, Vocabulary
from tfnlp.layers.hierarchical_softmax import huffman_tree
from tfnlp.settings.word_vectors import (
    CountedTextSettings,
    VectorEvaluation,
    WordPrediction,
    signed_words,
)
from tfnlp.text import answer_analogies, rate_pairs
from tfnlp.text.lines import read_lines

COUNTS = "counts.txt"  # beside the vocabulary: how often each word is in the training text


class WordVectors(Family):
    """A model whose use are the vectors of words; `finish` makes them.

    Attributes:
        vocabulary: How its runs keep the words.
    """

    evaluation = VectorEvaluation
    prediction = WordPrediction
    vocabulary: ClassVar[Vocabulary] = FREQUENT_WORDS

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        model, pretrainer = self.build(run["arguments"], {}, dtype)
        words = self.vocabulary.read(os.path.join(path, self.vocabulary.name))
        return Pretrained(model, pretrainer, run["arguments"], words=words)

    def evaluate(self, loaded: Pretrained, settings: VectorEvaluation) -> Measured:
        """Return the accuracy of analogies and the rank correlations with people's judgements."""
        paths = settings.similarity
        paths = [paths] if isinstance(paths, str) else paths or ()
        questions = read_analogies(settings.analogies) if settings.analogies else None
        sets = {path: read_similarities(path) for path in paths}
        vectors = loaded.word_vectors
        results: dict[str, Any] = {"words": len(vectors.words), "size": vectors.size}
        if questions is not None:
            answers = answer_analogies(vectors, questions, settings.most_frequent)
            results["analogies"] = {
                name: {
                    "accuracy": _number(a.accuracy),
                    "correct": a.correct,
                    "seen": a.seen,
                    "asked": a.asked,
                }
                for name, a in answers.items()
            }
        results["similarity"] = {}
        for path, pairs in sets.items():
            found = rate_pairs(vectors, pairs)
            results["similarity"][path] = {
                "spearman": _number(found.spearman),
                "seen": found.seen,
                "asked": found.asked,
            }
        return Measured(results, "\n".join(_lines(results)))

    def vectors(self, loaded: Pretrained) -> Callable[[list[str]], Any]:
        module = hub.WordVectorsModule(loaded.word_vectors)
        return lambda texts: module(tf.constant(texts))

    def sentences(self, loaded: Pretrained, settings: SentenceSettings) -> Embedding:
        """Return the function of strings to vectors of their words; unseen ones are zeros."""
        if settings.layer not in (-1, 0):
            raise ValueError(f"`layer` {settings.layer}: {self.title} has one layer, 0 or -1")
        module = hub.WordVectorsModule(loaded.word_vectors, combiner="mean")

        def states(words: tf.RaggedTensor) -> tf.Tensor:
            distinct, index = tf.unique(words.values)
            found = tf.gather(module(distinct), index)  # each word is a text of one word
            return words.with_values(found).to_tensor()  # [B, T, D]

        return of_words(states, loaded.word_vectors.size, settings, self.title)

    def predict(
        self, loaded: Pretrained, settings: WordPrediction
    ) -> list[list[tuple[str, float]]]:
        """Return for each word, or for the sum, the nearest words with their cosines."""
        return [
            loaded.word_vectors.most_similar(*signed_words(query), settings.top)
            for query in settings.queries()
        ]

    def lines(self, loaded: Pretrained, settings: WordPrediction) -> Iterator[str]:
        for query, found in zip(settings.queries(), self.predict(loaded, settings), strict=True):
            yield f"{query}\n"
            for word, cosine in found:
                yield f"  {cosine:.3f}  {word}\n"


def _lines(results: dict[str, Any]) -> Iterator[str]:
    yield f"{results['words']:,} words of {results['size']} numbers"
    for name, row in results.get("analogies", {}).items():
        yield (
            f"{name:30s}{_shown(row['accuracy'], '.1%'):>8s}  {row['correct']} of {row['seen']}, "
            f"{row['asked'] - row['seen']} not asked"
        )
    for path, row in results["similarity"].items():
        yield (
            f"{os.path.basename(path):30s}{_shown(row['spearman'], '.3f'):>8s}  Spearman of "
            f"{row['seen']} pairs, {row['asked'] - row['seen']} left out"
        )


def _number(value: float) -> float | None:
    """Return a number as JSON knows it."""
    return None if math.isnan(value) else value


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


class CountedText(Preparation):
    """The frequent words of a text, for models that leave all others out.

    Attributes:
        a_loss: Of what the loss is one, in words.
    """

    vocabulary = FREQUENT_WORDS
    text = {}
    a_loss: ClassVar[str]

    def __init__(self, settings: CountedTextSettings) -> None:
        self.settings = settings
        parts = [tokenized(part, settings.tokenize) for part in documents(settings)]
        if settings.lowercase:
            parts = [changed(part, str.lower) for part in parts]
        self.tokens = tokens_of(settings, FREQUENT_WORDS, parts[0])
        train, valid = (_corpus(part, self.tokens) for part in parts)
        self.train, self.valid = train, valid
        self.corpus = {"words": train.num_words, "crc32": int32_checksum(train.ids)}
        self.files = {COUNTS: train.counts}

    def counted(self, title: str, epoch: str) -> str:
        """Return sizes of vocabulary and text in words, and how long an epoch is."""
        train, valid = self.train, self.valid
        return (
            f"{title} of {len(self.tokens):,} words x {self.settings.dimension}; "
            f"{train.num_words:,} words of {train.num_sentences:,} sentences, {train.unknown:,} "
            f"rare ones left out; {epoch} updates an epoch; held out: {valid.num_words:,} words"
        )

    def line(self, when: str, results: dict[str, float]) -> str:
        return f"held out, {when}: {results['loss']:.4f} {self.a_loss}"


def _corpus(documents: Documents, words: list[str]) -> WordCorpus:
    return tokenized_once(
        documents,
        ["words", words],
        lambda folder: WordCorpus.build(sentences(documents), words, folder),
        lambda folder: WordCorpus.read(folder, words),
    )


def with_counts(loaded: Pretrained, vectors: np.ndarray, folder: str, *more: Any) -> None:
    """Make the word vectors of a run, with the counts of its words if its folder has them."""
    path, counts = os.path.join(folder, COUNTS), None
    if os.path.exists(path):
        lines = read_lines(path, "file of counts")
        if not all(line.isdecimal() and len(line) < 19 for line in lines):
            raise ValueError(f"file of counts {path} holds something else; expected whole numbers")
        counts = np.array(lines, "int64")
    loaded.word_vectors = text.WordVectors(loaded.words, vectors, counts, *more)


def loss_arguments(loss: str, default: str, counts: np.ndarray) -> dict[str, Any]:
    """Return the arguments of a model for a loss over words; none for its default.

    `counts`, int `[V]`, says how often each word is in the training text.
    """
    if loss == default:
        return {}
    if loss != "hierarchical":
        return {"loss": loss}
    if len(counts) < 2:
        raise ValueError("`loss` hierarchical needs a vocabulary of 2 words or more")
    return {"loss": loss, "depth": huffman_tree(counts).shape[1]}
