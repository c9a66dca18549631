"""The tasks of fine-tuned modules: labels, scores, choices, answers, tags; outputs of others."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfnlp.serving.action import Action, Field, Row, column, plain

Call = Callable[..., dict[str, Any]]
_TEXT = Field("text", "Texts, one a line", "lines", "The film was a delight from start to end.")
_PAIR = (
    Field("text_a", "First text", "text", "A man is playing a guitar."),
    Field("text_b", "Second text", "text", "Somebody makes music."),
)
_SENTENCE = "Ada Lovelace lived in London ."
_MOST = 1000  # values that are shown in full
_FIRST = 8


def _texts(pairs: bool) -> tuple[Field, ...]:
    return _PAIR if pairs else (_TEXT,)


def _given(rows: Sequence[Row], pairs: bool) -> dict[str, list[str]]:
    return {field.name: column(rows, field.name) for field in _texts(pairs)}


def _named(probabilities: np.ndarray, labels: Sequence[str] | None) -> dict[str, Any]:
    names = labels if labels is not None and len(labels) == len(probabilities) else None
    names = names or [str(number) for number in range(len(probabilities))]
    return dict(zip(names, plain(probabilities), strict=True))


def classify(call: Call, labels: Sequence[str] | None, pairs: bool) -> Action:
    """Return the action of a module with one label for a text."""

    def run(rows: Sequence[Row]) -> list[Row]:
        found = call(**_given(rows, pairs))
        return [
            {"label": plain(label), "probabilities": _named(p, labels)}
            for label, p in zip(found["label"], found["probabilities"], strict=True)
        ]

    return Action(
        "classify", "Classify", "Classify", "The label of each text, and the probability of all.",
        _texts(pairs), run,
    )  # fmt: skip


def several_labels(call: Call, labels: Sequence[str] | None, pairs: bool) -> Action:
    """Return the action of a module with any number of labels for a text."""

    def run(rows: Sequence[Row]) -> list[Row]:
        found = call(**_given(rows, pairs))
        return [
            {"labels": [x for x in plain(given) if x], "probabilities": _named(p, labels)}
            for given, p in zip(found["labels"], found["probabilities"], strict=True)
        ]

    return Action(
        "labels", "Label", "Label", "All labels whose probability is at least their threshold.",
        _texts(pairs), run,
    )  # fmt: skip


def similarity(call: Call, pairs: bool) -> Action:
    """Return the action of a module with a score."""

    def run(rows: Sequence[Row]) -> list[Row]:
        return [{"score": plain(x)} for x in call(**_given(rows, pairs))["score"]]

    text = "The score, in the units of the data that the model was trained on."
    return Action("similarity", "Compare", "Compare", text, _texts(pairs), run)


def choose(call: Call, count: int | None) -> Action:
    """Return the action of a module that chooses among `count` texts; None: any number."""

    def check(row: Row) -> None:
        given = len(row["choices"])
        if given < 2 or (count is not None and given != count):
            wanted = "two or more" if count is None else count
            raise ValueError(f"choices holds {given} texts; this module takes {wanted}")

    def run(rows: Sequence[Row]) -> list[Row]:
        found: list[Row] = [{}] * len(rows)
        for size in sorted({len(row["choices"]) for row in rows}):
            places = [i for i, row in enumerate(rows) if len(row["choices"]) == size]
            some = [rows[i] for i in places]
            got = call(text=column(some, "text"), choices=column(some, "choices"))
            pairs = zip(got["choice"], got["probabilities"], strict=True)
            for i, (chosen, p) in zip(places, pairs, strict=True):
                text = rows[i]["choices"][int(chosen)]
                found[i] = {"choice": int(chosen), "text": text, "probabilities": plain(p)}
        return found

    fields = (
        Field("text", "Text", "text", "It rained all day, so"),
        Field("choices", f"Choices, one a line{f' ({count})' if count else ''}", "list",
              "\n".join(["we stayed at home.", "the sun burnt us.", "the fish flew.",
                         "the tea was blue."][: count or 3])),
    )  # fmt: skip
    return Action(
        "choose", "Choose", "Choose", "The choice that goes on best.", fields, run, check=check
    )


def answer(call: Call) -> Action:
    """Return the action of a module that finds answers in a text."""

    def run(rows: Sequence[Row]) -> list[Row]:
        found = call(question=column(rows, "question"), context=column(rows, "context"))
        return [
            _answer(row["context"], {name: plain(x[i]) for name, x in found.items()})
            for i, row in enumerate(rows)
        ]

    fields = (
        Field("question", "Question", "line", "Where did Ada Lovelace live?"),
        Field("context", "Text", "text", "Ada Lovelace was a mathematician. She lived in London."),
    )
    text = "The answer to a question, marked in the text; none if the text has none."
    return Action("answer", "Answer", "Find the answer", text, fields, run)


def _answer(context: str, found: Row) -> Row:
    """Return what was found for one question, places in characters."""
    places: dict[str, int | None] = {"start": None, "end": None}
    if found["answer"]:
        text = context.encode()
        places = {name: len(text[: found[name]].decode("utf-8", "ignore")) for name in places}
    others = zip(found.get("answers", []), found.get("scores", []), strict=True)
    listed = [{"text": text, "score": score} for text, score in others if text][:5]
    return {
        "answer": found["answer"],
        "score": found["score"],
        "null_score": found.get("null_score"),
        **places,
        "answers": listed,
    }


def tag(call: Call, roles: bool = False) -> Action:
    """Return the action of a module that tags words, those of a predicate in the row if `roles`."""

    def check(row: Row) -> None:
        count = len(row["text"].encode().split())  # at ASCII spaces, as TensorFlow splits it
        if row["predicate"] >= count:
            raise ValueError(
                f"predicate {row['predicate']} must be from 0 to {count - 1}, the number of a word"
            )

    def run(rows: Sequence[Row]) -> list[Row]:
        more = {"predicate": column(rows, "predicate")} if roles else {}
        found = call(text=column(rows, "text"), **more)
        return [_tagged({name: plain(x[i]) for name, x in found.items()}) for i in range(len(rows))]

    if roles:
        fields = (
            Field("text", "Sentence, words between spaces", "line", _SENTENCE),
            Field("predicate", "Number of the predicate's word, from 0", "number", "2"),
        )
        text = "The roles of the words around a predicate."
        return Action("roles", "Roles", "Find roles", text, fields, run, check=check)
    fields = (Field("text", "Sentences, one a line, words between spaces", "lines", _SENTENCE),)
    return Action("tag", "Tag", "Tag", "The tag of each word.", fields, run)


def _tagged(found: Row) -> Row:
    count = sum(token != "" for token in found["tokens"])
    return {name: found[name][:count] for name in ("tokens", "tags", "probabilities")}


def outputs(call: Callable[..., dict[str, Any]], names: Sequence[str]) -> Action:
    """Return the action that shows what a module returns."""

    def run(rows: Sequence[Row]) -> list[Row]:
        found = call(**{name: column(rows, name) for name in names})
        return [
            {name: _shown(value, i, len(rows)) for name, value in found.items()}
            for i in range(len(rows))
        ]

    kind = "lines" if len(names) == 1 else "text"
    fields = tuple(
        Field(name, f"{name}, one text a line" if kind == "lines" else name, kind, "Hello, world!")
        for name in names
    )
    text = "What the module returns. Its outputs are not those of a task that this page knows."
    return Action("outputs", "Outputs", "Run", text, fields, run)


def _shown(value: Any, row: int, count: int) -> Any:
    """Return the part of an output that belongs to a row; a large one by its shape."""
    if np.ndim(value) and len(value) == count:
        value = value[row]
    if isinstance(value, np.ndarray) and value.size > _MOST:
        return {"shape": list(value.shape), "first": plain(value.ravel()[:_FIRST])}
    return plain(value)
