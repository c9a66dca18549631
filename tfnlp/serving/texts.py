"""Modules that write: masks filled, texts continued, translations."""

import codecs
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.serving.action import Action, Call, Option, Row, column, plain
from tfnlp.tasks.playground import Field

MASKS = ("[MASK]", "<mask>")
_WORD = re.compile(r"[^\s.,;:!?\"()\[\]،؟。、]+|[.,;:!?\"()\[\]،؟。、]+")


def fill(call: Call) -> Action:
    """Return the action of a module that fills masks."""
    # What the module reads as a mask is found by trying.
    found = call(text=list(MASKS))["probabilities"]  # [2, M, k]
    mask = next((mask for mask, row in zip(MASKS, found, strict=True) if np.any(row)), MASKS[0])

    def check(row: Row) -> None:
        if mask not in row["text"]:
            raise ValueError(f"text holds no {mask}; write it where a word is missing")

    def run(rows: Sequence[Row]) -> list[Row]:
        found = call(text=column(rows, "text"))
        return [
            {"text": plain(text), "masks": _masks(tokens, probabilities)}
            for text, tokens, probabilities in zip(
                found["text"], found["tokens"], found["probabilities"], strict=True
            )
        ]

    fields = (Field("text", f"Texts with {mask}, one a line", "lines", f"The dog {mask} away."),)
    text = f"The most probable words for each {mask}."
    return Action("fill", "Fill masks", "Fill", text, fields, run, check=check)


def _masks(tokens: np.ndarray, probabilities: np.ndarray) -> list[list[Row]]:
    """Return the tokens for each mask of a text, without those that are padding."""
    return [
        [
            {"token": plain(token), "probability": plain(p)}
            for token, p in zip(row, some, strict=True)
        ]
        for row, some in zip(tokens, probabilities, strict=True)
        if np.any(some)
    ]


def write(call: Call, module: Any = None) -> Action:
    """Return the action of a GPT that continues texts, token by token if the `module` is given.

    The module draws row b with the seed `seed + b`. So that a text does not depend on the requests
    beside it, only rows whose seeds follow each other share a call.
    """

    def run(rows: Sequence[Row]) -> list[Row]:
        found = []
        for part in _by_seed(rows):
            count = np.int32(part[0]["max_new_tokens"])
            got = call(prompt=column(part, "prompt"), max_new_tokens=count, **_how(part[0]))
            texts = zip(got["text"], got["continuation"], strict=True)
            found += [{"text": plain(t), "continuation": plain(c)} for t, c in texts]
        return found

    def stream(row: Row) -> Iterator[Row]:
        how = {name: tf.constant(x) for name, x in _how(row).items()}
        state = module.start(tf.constant([row["prompt"]]), tf.constant(row["max_new_tokens"]))
        while state["left"] > 0 and not state["done"][0]:
            state = module.advance(state, **how)
            last = state["left"] <= 0 or state["done"][0]
            yield {name: _whole(state[name][0].numpy(), last) for name in ("text", "continuation")}

    fields = (Field("prompt", "Beginning", "text", "It was a bright cold day", may_be_empty=True),)
    options = (
        Option("max_new_tokens", "Tokens", 40, 1, 512),
        Option("temperature", "Temperature (0: the most probable)", 0.8, 0, 10),
        Option("top_k", "Of the k most probable (0: all)", 40, 0, 1_000_000),
        Option("top_p", "Of a share of the probability", 1.0, 0.01, 1),
        Option("seed", "Seed", 1, 0, 2**31 - 10_000, counts_up=True),
    )
    text = "How a text may go on."
    streams = stream if hasattr(module, "advance") else None
    return Action("write", "Write on", "Write", text, fields, run, options, stream=streams)


def _how(row: Row) -> dict[str, Any]:
    """Return how a GPT's tokens are chosen, with the types of its module."""
    kinds = {"temperature": np.float32, "top_k": np.int32, "top_p": np.float32, "seed": np.int32}
    return {name: kind(row[name]) for name, kind in kinds.items()}


def _whole(text: bytes, last: bool) -> str:
    """Return a text without a last character that is not whole yet."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(text, final=bool(last))


def _by_seed(rows: Sequence[Row]) -> list[list[Row]]:
    """Divide rows where a seed does not follow the one before it; at temperature 0 nowhere."""
    parts = [[rows[0]]]
    for row in rows[1:]:
        if row["temperature"] == 0 or row["seed"] == parts[-1][-1]["seed"] + 1:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def translate(call: Call, align: Call | None) -> Action:
    """Return the action of a module that translates; `align` is its signature "attention"."""

    def run(rows: Sequence[Row]) -> list[Row]:
        sentences = column(rows, "text")
        if align is not None and rows[0]["attention"]:
            found = align(sentences=sentences)
            return [
                _aligned(text, {name: x[i] for name, x in found.items()})
                for i, text in enumerate(sentences)
            ]
        found = call(sentences=sentences)
        return [
            {"translation": plain(text), "score": plain(score)}
            for text, score in zip(found["translation"], found["score"], strict=True)
        ]

    fields = (Field("text", "Sentences, one a line", "lines", "A man is sleeping on a couch."),)
    options = () if align is None else (Option("attention", "Show the attention", True),)
    text = "The translation of each sentence."
    if align is not None:
        text += " The attention: how much each word of it looks at each word of the sentence."
    return Action("translate", "Translate", "Translate", text, fields, run, options)


def _aligned(sentence: str, found: dict[str, Any]) -> Row:
    """Return a translation with its attention `[T, S]` by words, without padding.

    A word looks as the mean of its tokens does, and is looked at as much as its tokens in sum.
    """
    translation = plain(found["translation"])
    source, widths = _words(sentence, found["source_tokens"])
    target, heights = _words(translation, found["target_tokens"])
    attention = found["attention"][: sum(heights), : sum(widths)].astype("float64")
    attention = np.add.reduceat(attention, np.cumsum([0, *widths[:-1]]), 1)
    attention = np.add.reduceat(attention, np.cumsum([0, *heights[:-1]]), 0)
    return {
        "translation": translation,
        "score": plain(found["score"]),
        "source_tokens": source,
        "target_tokens": target,
        "attention": plain(np.round(attention / np.c_[heights], 4)),
    }


def _words(text: str, padded: Sequence[bytes]) -> tuple[list[str], list[int]]:
    """Return the words of a text as they are written, and how many tokens each has.

    The last word is the token that ends the text. Where the tokens are not the text again, in
    small letters perhaps, each is a word.
    """
    count = max(i + 1 for i, token in enumerate(padded) if token)
    *tokens, end = (b"".join(token.split()) for token in padded[:count])
    forms = (text, text.lower())
    form = next((x for x in forms if "".join(x.split()).encode() == b"".join(tokens)), None)
    if form is None:
        return plain([*tokens, end]), [1] * count
    places = np.cumsum([len(token) for token in tokens], dtype=int)
    ends = np.cumsum([len(word.encode()) for word in _WORD.findall(form)], dtype=int)
    both = np.intersect1d(places, ends)  # where a token and a word end
    words = [""] * len(both)
    for place, word in zip(np.searchsorted(both, ends), _WORD.findall(text), strict=True):
        words[place] += word
    return [*words, plain(end)], [*np.bincount(np.searchsorted(both, places)).tolist(), 1]
