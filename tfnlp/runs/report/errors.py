"""The worst errors of a fine-tuned model, as rows of a table.

A cell is a list of (text, mark) pairs: the mark is None, "right", "wrong", "gold" or "guess". The
page escapes the text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Example = Mapping[str, Any]
Cell = list[tuple[str, str | None]]

COUNT = 30
LONGEST = 900  # characters of a text that are shown; predictions.jsonl has it whole


def worst(task: str, examples: Sequence[Example]) -> dict[str, Any]:
    """Return the worst errors as "order" (in words), "head" (names) and "rows" (lists of cells)."""
    key, order, head, row = _KINDS[task]
    wrong = sorted((e for e in examples if is_wrong(task, e)), key=key)[:COUNT]
    return {"order": order, "head": head, "rows": [row(e) for e in wrong]}


def is_wrong(task: str, example: Example) -> bool:
    """Return whether an example is an error: for spans only F1 0, for numbers any difference."""
    if task == "answer":
        return example["f1"] == 0.0
    if task == "tag":
        return _wrong_words(example) > 0
    if task == "labels":
        return set(example["predicted"]) != set(example["label"])
    return example["predicted"] != example["label"]


def _classify(example: Example) -> list[Cell]:
    gold, guess = example["label"], example["predicted"]
    probabilities = example["probabilities"]
    return [
        [(gold, "right")],
        [(guess, "wrong")],
        [(f"{probabilities.get(gold, 0.0):.4f}", None)],
        _texts(example["text"]),
    ]


def _labels(example: Example) -> list[Cell]:
    gold, guess = set(example["label"]), set(example["predicted"])
    return [
        [(_names(gold - guess), "right")],
        [(_names(guess - gold), "wrong")],
        [(_names(gold & guess), None)],
        _texts(example["text"]),
    ]


def _names(labels: set[str]) -> str:
    return ", ".join(sorted(labels)) or "–"


def _surprise(example: Example) -> float:
    """Return the smallest probability of a decision that would have been right."""
    gold = set(example["label"])
    p = example["probabilities"].items()
    return min((x if name in gold else 1 - x for name, x in p), default=0.0)


def _similarity(example: Example) -> list[Cell]:
    gold, guess = example["label"], example["predicted"]
    return [
        [(f"{gold:.2f}", "right")],
        [(f"{guess:.2f}", "wrong")],
        [(f"{guess - gold:+.2f}", None)],
        _texts(example["text"]),
    ]


def _choose(example: Example) -> list[Cell]:
    cell = []
    for index, choice in enumerate(example["choices"]):
        mark = {example["label"]: "right", example["predicted"]: "wrong"}.get(index)
        cell += [(f"{example['probabilities'][index]:.3f}  ", None), (_short(choice), mark)]
        cell.append(("\n", None))
    return [_texts(example["text"]), cell[:-1]]


def _answer(example: Example) -> list[Cell]:
    golds = list(dict.fromkeys(example["answers"])) or ["(no answer)"]
    guess = example["predicted"]
    return [
        [(_short(example["question"]), None)],
        [("\n".join(golds), "right")],
        [(guess or "(no answer)", "wrong")],
        [(f"{example['score']:.2f}", None)],
        marked(example["context"], example["answers"], guess),
    ]


def marked(context: str, golds: Sequence[str], guess: str) -> Cell:
    """Return the part of a context around gold and predicted answers, with both marked.

    The first place of each string is marked; where they overlap, the gold one wins.
    """
    places = []
    for text, mark in [*((gold, "right") for gold in golds), (guess, "wrong")]:
        start = context.find(text) if text else -1
        end = start + len(text)
        if start >= 0 and all(end <= left or right <= start for left, right, _ in places):
            places.append((start, end, mark))
    places.sort()
    begin = max(0, places[0][0] - LONGEST // 4) if places else 0
    last = min(len(context), (places[-1][1] if places else begin) + LONGEST // 4)
    pieces, position = [("… ", None)] if begin else [], begin
    for start, end, mark in places:
        pieces += [(context[position:start], None), (context[start:end], mark)]
        position = end
    return [*pieces, (context[position:last], None), *([(" …", None)] * (last < len(context)))]


def _tag(example: Example) -> list[Cell]:
    cell = []
    for word, gold, guess in zip(
        example["words"], example["tags"], example["predicted"], strict=True
    ):
        if gold == guess:
            cell.append((f"{word} ", None))
        else:
            space = (" ", None)
            cell += [(word, "wrong"), space, (guess, "guess"), space, (gold, "gold"), space]
    return [[(f"{_wrong_words(example)} of {len(example['words'])}", None)], cell]


def _wrong_words(example: Example) -> int:
    return sum(a != b for a, b in zip(example["tags"], example["predicted"], strict=True))


def _texts(texts: Sequence[str]) -> Cell:
    return [(_short("\n".join(texts)), None)]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


# Task to: key to sort by, the same in words, names of the columns, function that makes the cells.
_KINDS = {
    "classify": (
        lambda e: e["probabilities"].get(e["label"], 0.0),
        "the gold class was least probable",
        ["gold", "predicted", "p(gold)", "text"],
        _classify,
    ),
    "labels": (
        _surprise,
        "a right decision was least probable",
        ["missing", "too many", "right", "text"],
        _labels,
    ),
    "similarity": (
        lambda e: -abs(e["predicted"] - e["label"]),
        "the difference is largest",
        ["gold", "predicted", "difference", "text"],
        _similarity,
    ),
    "choose": (
        lambda e: e["probabilities"][e["label"]],
        "the gold choice was least probable",
        ["text", "choices, with their probability"],
        _choose,
    ),
    "answer": (
        lambda e: -e["score"],
        "no word is right and the score is highest",
        ["question", "gold", "predicted", "score", "context"],
        _answer,
    ),
    "tag": (
        lambda e: -_wrong_words(e),
        "most words are wrong",
        ["wrong", "sentence, with predicted and gold tag of the wrong words"],
        _tag,
    ),
}
