"""Labels and the kind of a task in `config.json`."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.heads.files import SPEC, TaskHead
from tfnlp.tasks import Task, task_of
from tfnlp.text.lines import shown

_KINDS = {
    "class": "single_label_classification",
    "label": "multi_label_classification",
    "score": "regression",
}
_NAMED = ("class", "label", "tag")  # outputs that have names


def architecture_of(config: Mapping[str, Any], known: Collection[str]) -> str | None:
    """Return the class of transformers that a configuration names, if it is among `known`."""
    stated = config.get("architectures")
    found = stated[0] if isinstance(stated, list) and len(stated) == 1 else None
    return found if isinstance(found, str) and found in known else None


def head_of(path: pathlib.Path, heads: Iterable[TaskHead]) -> TaskHead | None:
    """Return the head of a fine-tuned checkpoint, by the class that its configuration names."""
    known = {head.architecture: head for head in heads}
    return known.get(architecture_of(read_json(path), known))


def output_of(path: pathlib.Path, outputs: Collection[str], size: int) -> str:
    """Return which of the kinds `outputs` that its class can have a head of `size` outputs has."""
    if "class" not in outputs:
        return next(iter(outputs))
    kind = read_json(path).get("problem_type")
    if kind is None:
        kind = _KINDS["score" if size == 1 else "class"]
    if kind not in _KINDS.values():
        raise ValueError(
            f"{path} has problem_type={shown(kind)}, which tfnlp has no task for; expected one of "
            f"{', '.join(_KINDS.values())}"
        )
    output = next(name for name, word in _KINDS.items() if word == kind)
    if output != "label" and (size == 1) != (output == "score"):
        raise ValueError(
            f"{path} has problem_type={kind!r}, but the head has {size} outputs; tfnlp has "
            "regression of one number and classes of two or more"
        )
    return output


def labels_of(path: pathlib.Path, output: str, size: int) -> tuple[str, ...]:
    """Return the names of the classes or tags, `LABEL_0`, ... where there are none."""
    if output not in _NAMED:
        return ()
    named = read_json(path).get("id2label")
    if named is None:
        return tuple(f"LABEL_{i}" for i in range(size))
    labels = [named.get(str(i)) for i in range(size)] if isinstance(named, dict) else []
    valid = all(isinstance(label, str) and label for label in labels)
    if not valid or len(set(labels)) != size or len(named) != size:
        raise ValueError(
            f"{path} has id2label={shown(named)}; expected a name for each of the head's {size} "
            'outputs, {"0": "...", ...}'
        )
    return tuple(labels)


def stated_task(path: pathlib.Path, output: str, labels: tuple[str, ...]) -> Task | None:
    """Return the task that tfnlp wrote beside the settings of transformers, or None."""
    stated = read_json(path).get(SPEC)
    if stated is None:
        return None
    try:
        task = task_of({**stated, "labels": labels})
        if task.output != output:
            raise ValueError(f"task={task.name!r} does not fit the head")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} has settings in {SPEC!r} that make no sense: {error}") from error
    return task


def task_config(task: Task) -> dict[str, Any]:
    """Return what `config.json` says of a task, whose scores `written_head` has scaled."""
    stated: dict[str, Any] = {SPEC: task.rescaled().config()}
    if task.output in _KINDS:
        stated["problem_type"] = _KINDS[task.output]
    if task.output in _NAMED:
        stated["id2label"] = {str(i): label for i, label in enumerate(task.labels)}
        stated["label2id"] = {label: i for i, label in enumerate(task.labels)}
    if task.output == "score":
        stated["id2label"], stated["label2id"] = {"0": "LABEL_0"}, {"LABEL_0": 0}
    return stated
