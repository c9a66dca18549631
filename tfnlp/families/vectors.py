"""Word vectors: measures, files, modules and neighbours, of every family that has them."""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

from tfnlp.families.export_checks import check_format, only_savedmodel
from tfnlp.families.family import Measured, Prediction
from tfnlp.families.sentences import of_word_vectors
from tfnlp.settings.use import VECTOR_FILES, EvaluateSettings, ExportSettings
from tfnlp.settings.word2vec import PredictWords

_MODULE_ONLY = ("combiner", "oov_buckets", "lowercase", "strip_punctuation")
VECTOR_EXPORTS = ("format", *_MODULE_ONLY)
VECTOR_MEASURES = {"analogies": None, "similarity": None, "most_frequent": None}


def evaluate_vectors(loaded: Any, config: EvaluateSettings) -> Measured:
    """Return the accuracy of analogies and the rank correlations with people's judgements."""
    from tfnlp.data import read_analogies, read_similarities
    from tfnlp.objectives import answer_analogies, rate_pairs

    if config.text:
        raise ValueError("a text is measured apart from `analogies` and `similarity`")
    paths = [config.similarity] if isinstance(config.similarity, str) else config.similarity
    questions = read_analogies(config.analogies) if config.analogies else None
    sets = {path: read_similarities(path) for path in paths or ()}
    vectors = loaded.word_vectors
    results = {"words": len(vectors.words), "size": vectors.size}
    if questions is not None:
        answers = answer_analogies(vectors, questions, config.most_frequent)
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


def text_vectors(loaded: Any) -> Callable[[list[str]], Any]:
    """Return the function of strings to vectors `[B, D]` that the exported module would be."""
    import tensorflow as tf

    from tfnlp.hub import WordVectorsModule

    module = WordVectorsModule(loaded.word_vectors)
    return lambda texts: module(tf.constant(texts))


def export_vectors(loaded: Any, config: ExportSettings) -> dict[str, str]:
    """Write a module of texts to vectors, or a file of vectors."""
    from tfnlp import checkpoints, hub

    form = check_format(config, VECTOR_FILES, "word vectors")
    if form != "savedmodel":
        only_savedmodel(config, _MODULE_ONLY)
        checkpoints.write_word_vectors(config.output, loaded.word_vectors, form, config.overwrite)
        return {"vectors": config.output}
    module = hub.export_word_vectors(
        config.output,
        loaded.word_vectors,
        oov_buckets=1 if config.oov_buckets is None else config.oov_buckets,
        combiner=config.combiner or "sqrtn",
        lowercase=config.lowercase,
        punctuation=not config.strip_punctuation,
        overwrite=config.overwrite,
    )
    return {"module": module}


def query(text: str) -> tuple[list[str], list[str]]:
    """Return the words of "king - man + woman", as `(positive, negative)`."""
    positive, negative, sign, words = [], [], "+", text.split()
    for place, word in enumerate(words):
        if place % 2:
            if word not in ("+", "-"):
                raise ValueError(f"{text!r} lacks a + or - before {word!r}")
            sign = word
        elif word in ("+", "-"):
            raise ValueError(f"{text!r} lacks a word beside {word!r}; put spaces around signs")
        else:
            (positive if sign == "+" else negative).append(word)
    if len(words) % 2 == 0:
        raise ValueError(f"{text!r} lacks a word at its end")
    return positive, negative


def _queries(config: PredictWords) -> list[str]:
    text = " ".join(config.text)
    return [text] if {"+", "-"} & set(text.split()) else text.split()


def _check(config: PredictWords) -> None:
    for one in _queries(config):
        query(one)


def predict(loaded: Any, config: PredictWords) -> list[list[tuple[str, float]]]:
    """Return for each word, or for the sum, the nearest words with their cosines."""
    return [loaded.word_vectors.most_similar(*query(one), config.top) for one in _queries(config)]


def lines(loaded: Any, config: PredictWords) -> Iterator[str]:
    """Yield what `predict` returns as lines."""
    for one, found in zip(_queries(config), predict(loaded, config), strict=True):
        yield f"{one}\n"
        for word, cosine in found:
            yield f"  {cosine:.3f}  {word}\n"


VECTOR_PREDICTION = Prediction(
    name="word2vec",
    summary="Find the words nearest to words, or to `king - man + woman`, by vectors of any kind.",
    config=PredictWords,
    predict=predict,
    lines=lines,
    check=_check,
    reads_stdin=False,
)

# The fields of a `Family` that all families of word vectors fill alike.
OF_VECTORS: dict[str, Any] = {
    "export": export_vectors,
    "exports": VECTOR_EXPORTS,
    "vectors": text_vectors,
    "sentences": of_word_vectors,
    "prediction": VECTOR_PREDICTION,
}
