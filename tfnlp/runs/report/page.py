"""The report of a fine-tuned model: one self-contained page, and its predictions."""

import collections
import contextlib
import importlib.resources
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from sklearn.metrics import precision_recall_fscore_support

from tfnlp.data.labelled.tag_schemes import is_bio
from tfnlp.extras import needed
from tfnlp.files import written_whole
from tfnlp.runs.report import charts, errors
from tfnlp.tasks.baselines import baselines
from tfnlp.tasks.entities import type_scores
from tfnlp.text.lines import write_text

QUESTION_WORDS = ("what", "who", "whom", "whose", "which", "when", "where", "why", "how")


def write_report(
    directory: str | os.PathLike[str],
    *,
    title: str,
    task: str,
    summary: Mapping[str, Any],
    metrics: Mapping[str, float],
    history: Mapping[str, list[dict]] | None,
    examples: Iterable[Mapping[str, Any]],
    labels: Sequence[str] | None = None,
) -> str:
    """Write DIRECTORY/index.html and DIRECTORY/predictions.jsonl; return the page's path.

    The page has the measures beside those of the simplest guess, the learning curve, a picture of
    right and wrong predictions, and the worst errors with their text. The pictures are inside the
    page, and it loads nothing. A report that fails leaves an older one unchanged.

    Args:
        task: "classify", "labels", "similarity", "choose", "answer" or "tag".
        history: What `tfnlp.training.History.state` returns; None: no learning curve.
        examples: What `tfnlp.runs.task_examples.shown_in_report` returns of each.
        labels: Classes in the order of the confusion matrix; None: sorted.
    """
    examples = list(examples)
    golds = [e[{"answer": "answers", "tag": "tags"}.get(task, "label")] for e in examples]
    found = baselines(task, golds, labels or (sorted(set(golds)) if task == "classify" else ()))
    guesses = {name: f"{_number(b.value)} ({b.guess})" for name, b in found.items()}
    rows = [
        {"name": name, "value": _number(value), "baseline": guesses.get(name)}
        for name, value in metrics.items()
        if "/" not in name  # those of single labels are in a table
    ]
    figures = [*charts.curves(history), charts.chart(task, examples, labels)]
    page = _template().render(
        title=title,
        task=task,
        count=len(examples),
        summary={
            # A learning rate or a dropout as it was given, not rounded.
            name: f"{value:g}" if isinstance(value, float) else _number(value)
            for name, value in summary.items()
        },
        metrics=rows,
        figures=figures,
        tables=_tables(task, examples, labels),
        errors=errors.worst(task, examples),
        wrong=sum(errors.is_wrong(task, e) for e in examples),
    )
    lines = [json.dumps(e, ensure_ascii=False) + "\n" for e in examples]

    os.makedirs(directory, exist_ok=True)
    contents = {"predictions.jsonl": "".join(lines), "index.html": page}
    with contextlib.ExitStack() as both:
        for name, text in contents.items():
            partial = both.enter_context(written_whole(os.path.join(directory, name)))
            write_text(partial, text)
    return os.path.join(directory, "index.html")


def _tables(
    task: str, examples: Sequence[Mapping[str, Any]], labels: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Return tables: dicts with "title", "head" (names) and "rows" (lists of strings)."""
    if task == "tag" and is_bio(tag for e in examples for tag in e["tags"]):
        return [_by_type(examples)]
    if task in ("classify", "tag"):
        return [_by_class(*charts.truth_and_guess(task, examples), labels)]
    if task == "labels":
        return [_by_label(examples, labels)]
    if task != "answer":
        return []
    groups = collections.defaultdict(list)
    for example in examples:
        groups[question_word(example["question"])].append(example)
    groups = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [
        [
            word,
            str(len(group)),
            f"{100 * sum(e['exact_match'] for e in group) / len(group):.2f}",
            f"{100 * sum(e['f1'] for e in group) / len(group):.2f}",
        ]
        for word, group in groups
    ]
    empty = {
        "gold": sum(not e["answers"] for e in examples),
        "predicted": sum(not e["predicted"] for e in examples),
        "both": sum(not e["answers"] and not e["predicted"] for e in examples),
    }
    return [
        {"title": "By question word", "head": ["word", "questions", "EM", "F1"], "rows": rows},
        {
            "title": "Questions without an answer",
            "head": ["in the data", "predicted", "of them rightly"],
            "rows": [[str(n) for n in empty.values()]],
        },
    ]


def question_word(question: str) -> str:
    """Return the first question word of a question in lower case, or "other"."""
    words = (word.strip("\"'“”‘’¿(,.?!:;-") for word in question.lower().split())
    words = (word.removesuffix("'s").removesuffix("’s") for word in words)
    return next((word for word in words if word in QUESTION_WORDS), "other")


def _by_class(
    truth: Sequence[str], guess: Sequence[str], labels: Sequence[str] | None
) -> dict[str, Any]:
    """Return precision, recall and F1 of each class, the 20 commonest."""
    names = charts.shown_classes(truth, guess, labels)
    columns = precision_recall_fscore_support(truth, guess, labels=names, zero_division=0)
    rows = [
        [name, f"{precision:.3f}", f"{recall:.3f}", f"{f1:.3f}", str(count)]
        for name, precision, recall, f1, count in zip(names, *columns, strict=True)
    ]
    head = ["class", "precision", "recall", "F1", "in the data"]
    return {"title": "By class", "head": head, "rows": rows}


def _by_label(
    examples: Sequence[Mapping[str, Any]], labels: Sequence[str] | None
) -> dict[str, Any]:
    """Return precision, recall and F1 of each label, the 20 commonest."""
    names, counts, found = charts.label_measures(examples, labels)
    rows = [
        [n, *(f"{found[f'{m}/{n}']:.3f}" for m in ("precision", "recall", "f1")), str(counts[n])]
        for n in names
    ]
    head = ["label", "precision", "recall", "F1", "in the data"]
    return {"title": "By label", "head": head, "rows": rows}


def _by_type(examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return precision, recall and F1 of the entities of each type, the 20 commonest."""
    scores = type_scores([e["tags"] for e in examples], [e["predicted"] for e in examples])
    scores = sorted(scores.items(), key=lambda item: (-item[1]["gold"], item[0]))[: charts.SHOWN]
    rows = [
        [kind, *(f"{s[name]:.3f}" for name in ("precision", "recall", "f1")),
         *(str(s[name]) for name in ("gold", "predicted"))]
        for kind, s in scores
    ]  # fmt: skip
    head = ["type", "precision", "recall", "F1", "in the data", "predicted"]
    return {"title": "By type of entity", "head": head, "rows": rows}


def _number(value: Any) -> str:
    """Return a number as a readable string; other values as `str` gives them."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value and abs(value) < 0.01:
        return f"{value:.3g}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.2f}"


def check_packages() -> ModuleType:
    """Return jinja2; call it before slow work."""
    needed("matplotlib", "matplotlib", "report", "`report`")
    return needed("jinja2", "jinja2", "report", "`report`")


def _template() -> Any:
    jinja2 = check_packages()
    text = importlib.resources.files("tfnlp.runs.report").joinpath("report.html").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)
