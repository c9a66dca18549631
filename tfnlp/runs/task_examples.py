"""Examples of fine-tuned models: from plain texts, and as people read them."""

from collections.abc import Iterable, Sequence
from typing import Any

_TAKES = {
    "classify": "a text (of pairs two texts)",
    "labels": "a text (of pairs two texts)",
    "similarity": "two texts",
    "choose": "a text and {choices} choices",
    "answer": "a question and a document",
    "tag": "a sentence, its words between spaces",
    "roles": "a sentence, its words between spaces, and its predicate (a word of it, or its number "
    "from 0)",
}


def takes(spec: Any) -> str:
    """Return what a task takes, in words."""
    return _TAKES[spec.task].format(choices=spec.choices)


def texts_of(spec: Any) -> int:
    """Return the number of texts of an example."""
    if spec.reads_texts:
        return spec.texts
    return {"choose": 1 + spec.choices, "answer": 2, "tag": 1, "roles": 2}[spec.task]


def examples_of_texts(spec: Any, rows: Iterable[Sequence[str]]) -> list[Any]:
    """Return unlabelled examples of rows of texts."""
    return [_example(spec, row, number) for number, row in enumerate(rows, 1)]


def _example(spec: Any, row: Sequence[str], number: int) -> Any:
    from tfnlp.data import Question, RoleSentence, TaggedSentence, TaskExample

    if len(row) != texts_of(spec):
        raise ValueError(f"example {number} has {len(row)} texts; {spec.task} takes {takes(spec)}")
    if spec.task == "answer":
        return Question(str(number), row[0], row[1], ())
    if spec.task == "tag":
        return TaggedSentence(tuple(row[0].split()), None)
    if spec.task == "roles":
        words = tuple(row[0].split())
        return RoleSentence(words, None, _predicate(words, row[1].strip(), number))
    if spec.task == "choose":
        return TaskExample((row[0],), None, tuple(row[1:]))
    return TaskExample(tuple(row), None)


def _predicate(words: Sequence[str], predicate: str, number: int) -> int:
    """Return the number of the word that a text says is the predicate."""
    places = [place for place, word in enumerate(words) if word == predicate]
    if len(places) == 1:
        return places[0]
    if predicate.isascii() and predicate.isdecimal() and int(predicate) < len(words):
        return int(predicate)
    found = "is not among its words" if not places else f"is {len(places)} of its words"
    raise ValueError(
        f"example {number}: the predicate {predicate!r:.60} {found}; give the word, or its number "
        f"from 0 to {len(words) - 1}"
    )


def shown(spec: Any, example: Any, prediction: dict[str, Any]) -> str:
    """Return a prediction for people to read."""
    if spec.task == "classify":
        chosen = prediction["label"]
        text = " | ".join(example.segments)
        return f"{chosen} {prediction['probabilities'][chosen]:.3f}  {text}"
    if spec.task == "labels":
        chosen = [f"{x} {prediction['probabilities'][x]:.3f}" for x in prediction["labels"]]
        return f"{', '.join(chosen) or '(none)'}  {' | '.join(example.segments)}"
    if spec.task == "similarity":
        return f"{prediction['score']:.3f}  {' | '.join(example.segments)}"
    if spec.task == "choose":
        chosen = prediction["choice"]
        share = prediction["probabilities"][chosen]
        return f"{chosen} {share:.3f}  {example.segments[0]} {example.choices[chosen]}"
    if spec.output == "tag":
        pairs = zip(example.words, prediction["tags"], strict=True)
        return " ".join(f"{word}/{tag}" for word, tag in pairs)
    answer = prediction["answer"] or "(no answer)"
    return f"{answer}  ({prediction['score']:.3f})"


def shown_in_report(spec: Any, example: Any, prediction: dict[str, Any]) -> dict[str, Any]:
    """Return an example and its prediction as the report takes them."""
    if spec.output == "tag":
        tags = {"tags": list(example.tags), "predicted": prediction["tags"]}
        words = list(example.words)
        if spec.task == "roles":
            words[example.predicate] = f"[{words[example.predicate]}]"
        return {"words": words, **tags}
    if spec.task == "answer":
        return _answer_in_report(spec, example, prediction)
    found = {"text": list(example.segments), "label": example.label}
    if spec.task == "labels":
        probabilities = prediction["probabilities"]
        found["label"] = list(example.label)
        return {**found, "predicted": prediction["labels"], "probabilities": probabilities}
    if spec.task == "similarity":
        return {**found, "predicted": prediction["score"]}
    probabilities = prediction["probabilities"]
    if spec.task == "choose":
        found["choices"] = list(example.choices)
        return {**found, "predicted": prediction["choice"], "probabilities": probabilities}
    return {**found, "predicted": prediction["label"], "probabilities": probabilities}


def _answer_in_report(spec: Any, example: Any, prediction: dict[str, Any]) -> dict[str, Any]:
    from tfnlp.tasks.squad import question_scores

    golds = [text for text, _ in example.answers]
    exact, f1 = question_scores(golds, prediction["answer"], spec.unanswerable or not golds)
    return {
        "id": example.id,
        "question": example.question,
        "context": example.context,
        "answers": golds,
        "predicted": prediction["answer"],
        "score": prediction["score"],
        "exact_match": exact,
        "f1": f1,
    }
