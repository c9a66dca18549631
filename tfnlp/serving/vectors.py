"""Modules that make vectors: the nearest lines, the nearest words; indexes that are searched."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from tfnlp.serving.action import Action, Call, Option, Row, column, plain
from tfnlp.tasks.playground import Field
from tfnlp.text.word_vectors import unit

Embed = Callable[[list[str]], np.ndarray]  # strings to float [N, D]
_PART = 32  # texts that are embedded at a time
_WORDS = 8192  # words
_TOP = Option("top", "How many", 5, 1, 100)
_LINES = "\n".join([
    "The cat sleeps on the sofa.", "Shares fell sharply on Monday.", "A kitten is resting indoors.",
    "The team won the cup final.", "Rain is expected in the north.",
])  # fmt: skip


def neighbours(embed: Embed, what: str) -> Action:
    """Return the action that orders texts by the cosine of their vectors with that of a query.

    `what` says to people what a vector is.
    """

    def run(rows: Sequence[Row]) -> list[Row]:
        texts = list(dict.fromkeys(text for row in rows for text in [row["query"], *row["texts"]]))
        vectors = dict(zip(texts, unit(_embedded(embed, texts)), strict=True))
        found = []
        for row in rows:
            others = np.stack([vectors[text] for text in row["texts"]])
            scores = others @ vectors[row["query"]]
            order = np.argsort(-scores, kind="stable")[: row["top"]]
            found.append(_nearest(row["texts"], scores, order))
        return found

    fields = (
        Field("query", "Query", "line", "an animal naps"),
        Field("texts", "Texts to order, one a line", "list", _LINES),
    )
    text = f"The texts nearest to a query, by the cosine of their vectors: {what}."
    return Action("neighbours", "Neighbours", "Find neighbours", text, fields, run, (_TOP,))


def nearest_words(embed: Embed, words: Sequence[str], open_vocabulary: bool) -> Action:
    """Return the action that finds the words of a vocabulary nearest to a word.

    In an open vocabulary words that are not in it have vectors of their own.
    """
    known = set(words)

    @functools.cache
    def table() -> np.ndarray:
        return unit(_embedded(embed, list(words), _WORDS))  # computed for the first request

    def check(row: Row) -> None:
        if not open_vocabulary and row["word"] not in known:
            raise ValueError(f"{row['word'][:60]!r} is not among the {len(words):,} words")

    def run(rows: Sequence[Row]) -> list[Row]:
        vectors = unit(np.asarray(embed(column(rows, "word")), np.float32))
        found = []
        for row, scores in zip(rows, vectors @ table().T, strict=True):
            order = np.argsort(-scores, kind="stable")[: row["top"] + 1]
            order = [i for i in order if words[i] != row["word"]][: row["top"]]
            found.append(_nearest(words, scores, order))
        return found

    fields = (Field("word", "Word", "line", words[min(len(words) - 1, 50)] if words else ""),)
    text = f"The nearest of the {len(words):,} words, by the cosine of their vectors."
    return Action("words", "Words", "Find words", text, fields, run, (_TOP,), check)


def _nearest(texts: Sequence[str], scores: np.ndarray, order: Sequence[int]) -> Row:
    rows = [{"text": texts[i], "score": plain(scores[i]), "row": int(i)} for i in order]
    return {"neighbours": rows}


def search(call: Call) -> Action:
    """Return the action of an exported index: the texts that are nearest to a query."""

    def run(rows: Sequence[Row]) -> list[Row]:
        found = call(inputs=column(rows, "query"))
        names = {"text": "texts", "score": "scores", "row": "rows"}
        return [
            {
                "neighbours": [
                    {one: plain(found[many][i][k]) for one, many in names.items()}
                    for k in range(len(found["texts"][i]))
                ]
            }
            for i in range(len(rows))
        ]

    fields = (Field("query", "Queries, one a line", "lines", "an animal naps"),)
    return Action("search", "Search", "Search", "The texts of the index nearest to a query.",
                  fields, run)  # fmt: skip


def _embedded(embed: Embed, texts: list[str], part: int = _PART) -> np.ndarray:
    """Return vectors, float32 `[N, D]`, those of texts of similar length computed together."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    parts = [order[first : first + part] for first in range(0, len(order), part)]
    found = np.concatenate([embed([texts[i] for i in some]) for some in parts])
    vectors = np.empty_like(found, np.float32)
    vectors[order] = found
    return vectors
