"""What a fine-tuned checkpoint holds: the task, its labels and the tensors of its head."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.config import check_values
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.mapping import Row, TensorNames, check_tensors, table_names
from tfnlp.models.task_heads import (
    HEADS,
    ChoiceHead,
    ClassHead,
    LabelHead,
    ScoreHead,
    ScoresHead,
    SpanHead,
    TagHead,
)
from tfnlp.tasks import HeadTask, task_of
from tfnlp.text.lines import shown

# Key of config.json with the settings of a task that Hugging Face has no word for.
SPEC = "tfnlp_task"
SPAN = "qa_outputs"

_KINDS = {
    "class": "single_label_classification",
    "label": "multi_label_classification",
    "score": "regression",
    "scores": "regression",
}
_NAMED = ("class", "label", "scores", "tag")  # outputs that have names
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class TaskHead:
    """The class of transformers for one kind of output, and the names of its head.

    Attributes:
        architecture: name of the class.
        dense: layer of the task's model ("classifier", "hidden") to the name of a `Linear`; of
            "span" both layers, start and end, are rows of one `Linear`, `SPAN`.
        pooler: whether the head stands on the encoder's pooler.
        biased: whether the file holds biases.
        fixed: fields of the configuration that the head reads, and the only value of each.
        size: the number of outputs, where it does not depend on the task: a constant that is
            added to all choices, or to all places of an answer, changes no prediction, so that
            these biases have no place in tfnlp's heads.
    """

    architecture: str
    dense: Mapping[str, str]
    pooler: bool = False
    biased: bool = True
    size: int | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def beginnings(self, pooler: str | None = None) -> list[str]:
        """Return what the names of the head's tensors begin with, but for those of the pooler."""
        inside = pooler or "\0"
        return [f"{name}." for name in self.dense.values() if not f"{name}.".startswith(inside)]


def task_heads(
    prefix: str,
    pooled: Mapping[str, str] | None = None,
    choice: Mapping[str, str] | None = None,
    choice_fixed: Mapping[str, Any] | None = None,
) -> dict[str, TaskHead]:
    """Return the heads of an encoder: kind of output to `TaskHead`.

    Args:
        prefix: of the names of the classes, such as "Bert".
        pooled: `dense` of whole texts where they don't stand on the encoder's pooler: "hidden" and
            "classifier".
        choice: the same of multiple choice, if it is different.
        choice_fixed: `fixed` of multiple choice.
    """
    usual = {"classifier": "classifier"}
    whole = TaskHead(f"{prefix}ForSequenceClassification", pooled or usual, pooled is None)
    return {
        ClassHead.name: whole,
        LabelHead.name: whole,
        ScoreHead.name: whole,
        ScoresHead.name: whole,
        ChoiceHead.name: TaskHead(
            f"{prefix}ForMultipleChoice",
            choice or whole.dense,
            whole.pooler,
            size=1,
            fixed=choice_fixed or {},
        ),
        TagHead.name: TaskHead(f"{prefix}ForTokenClassification", usual),
        SpanHead.name: TaskHead(f"{prefix}ForQuestionAnswering", {SPAN: SPAN}, size=2),
    }


@dataclass
class FineTuned:
    """A fine-tuned checkpoint that was read.

    Attributes:
        backbone: the `Pretrained` under the head.
        architecture: the class of transformers.
        output: the kind of output, see `tfnlp.models.bert_task`.
        labels: names of classes or tags, in the order of the outputs.
        weights: path of each weight of the head to its values.
        task: the task that tfnlp wrote; None of other people's checkpoints.
        reader: the reader of its texts, if it is not the family's.
        rows: rows after the vocabulary in the table of tokens, if the head has some.
    """

    backbone: Any
    architecture: str
    output: str
    labels: tuple[str, ...]
    weights: dict[str, np.ndarray]
    task: Any = None
    reader: Any = None
    rows: np.ndarray | None = None


@dataclass(frozen=True)
class ClassParts:
    """A fine-tuned model in the names of its class of transformers.

    Attributes:
        architecture: the class.
        rows: path of each weight of the encoder to its tensors.
        heads: the tensors of the task's layers.
    """

    architecture: str
    rows: Mapping[str, Row]
    heads: Mapping[str, np.ndarray]


def class_parts(
    task_model: Any, head: TaskHead, form: TensorNames, arguments: Mapping[str, Any]
) -> ClassParts:
    """Return a fine-tuned encoder of these arguments in the names of a format."""
    if head.pooler and not arguments.get("pooler", True):
        raise ValueError(
            f"the model has no pooler, on which Hugging Face's {head.architecture} stands"
        )
    paths = {weight.path for weight in task_model.model.weights}
    rows = {
        path: row._replace(names=tuple(form.base + name for name in row.names))
        for path, row in form.rows(arguments, paths).items()
    }
    inside = form.pooler or "\0"  # a task's own layer may stand where others have the pooler
    heads = {
        form.base + name if name.startswith(inside) else name: array
        for name, array in written_head(task_model.model, head, task_model.task).items()
    }
    return ClassParts(head.architecture, rows, heads)


def architecture_of(config: Mapping[str, Any], known: Collection[str]) -> str | None:
    """Return the class of transformers that a configuration names, if it is among `known`."""
    match config.get("architectures"):
        case [str(found)] if found in known:
            return found
    return None


def read_task(
    backbone: Any,
    tensors: Tensors,
    config_path: pathlib.Path,
    architecture: str,
    heads: Mapping[str, TaskHead],
    canonical: Callable[[str], str | None],
) -> FineTuned:
    """Read what a fine-tuned checkpoint holds beside its backbone, which was loaded from it.

    `heads` has the kinds of output of the family's checkpoints as keys; `canonical` is that of
    `table_names`.
    """
    outputs = {name: head for name, head in heads.items() if head.architecture == architecture}
    head = next(iter(outputs.values()))
    config = read_json(config_path)
    check_values(config_path, config, {key: (value,) for key, value in head.fixed.items()})
    if head.pooler and not backbone.config["pooler"]:
        raise ValueError(
            f"{tensors.path} holds no pooler, on which the head of {architecture} stands; take "
            "weights that were saved as this class"
        )
    names = table_names(tensors, canonical, ())
    matrix = f"{list(head.dense.values())[-1]}.weight"
    shape = tensors.shapes[names[matrix]] if matrix in names else ()
    if len(shape) != 2 or not shape[0]:
        raise ValueError(f"{tensors.path} holds no matrix {shown(matrix)}, the head's")
    size = shape[0]
    output = _output_of(config_path, config, outputs, size)
    weights = _read_head(tensors, names, head, size, backbone.config["hidden_size"])
    labels = _labels_of(config_path, config, output, size)
    task = _stated_task(config_path, config, output, labels)
    return FineTuned(backbone, architecture, output, labels, weights, task)


def _output_of(
    path: pathlib.Path, config: Mapping[str, Any], outputs: Collection[str], size: int
) -> str:
    """Return which of the kinds `outputs` that its class can have a head of `size` outputs has."""
    if "class" not in outputs:
        return next(iter(outputs))
    kind = config.get("problem_type")
    if kind is None:
        kind = _KINDS["score" if size == 1 else "class"]
    if kind not in _KINDS.values():
        raise ValueError(
            f"{path} has problem_type={shown(kind)}, which tfnlp has no task for; expected one of "
            f"{', '.join(dict.fromkeys(_KINDS.values()))}"
        )
    output = next(name for name, word in _KINDS.items() if word == kind)
    if output == "class" and size == 1:
        raise ValueError(f"{path} has problem_type={kind!r}, but the head has one output")
    return "scores" if output == "score" and size > 1 else output


def _labels_of(
    path: pathlib.Path, config: Mapping[str, Any], output: str, size: int
) -> tuple[str, ...]:
    """Return the names of the classes or tags, `LABEL_0`, ... where there are none."""
    if output not in _NAMED:
        return ()
    if size < HEADS[output].least:
        raise ValueError(
            f"{path}: the head has {size} output (id2label); tfnlp's {output} needs "
            f"{HEADS[output].least} or more"
        )
    named = config.get("id2label")
    if named is None:
        return tuple(f"LABEL_{i}" for i in range(size))
    labels = [named.get(str(i)) for i in range(size)] if isinstance(named, dict) else []
    valid = all(isinstance(label, str) and label for label in labels)
    if not valid or not len(set(labels)) == len(named) == size:
        raise ValueError(
            f"{path} has id2label={shown(named)}; expected a name for each of the head's {size} "
            'outputs, {"0": "...", ...}'
        )
    return tuple(labels)


def _stated_task(
    path: pathlib.Path, config: Mapping[str, Any], output: str, labels: tuple[str, ...]
) -> HeadTask | None:
    """Return the task that tfnlp wrote beside the settings of transformers, or None."""
    stated = config.get(SPEC)
    if stated is None:
        return None
    try:
        task = task_of({**stated, "labels": labels})
        if task.output != output:
            raise ValueError(f"task={task.name!r} does not fit the head")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} has settings in {SPEC!r} that make no sense: {error}") from error
    return task


def task_config(task: HeadTask) -> dict[str, Any]:
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


def _read_head(
    tensors: Tensors,
    names: Mapping[str, str],
    head: TaskHead,
    size: int,
    width: int,
) -> Arrays:
    """Return the weights of a head by their paths.

    `names` are those of `table_names`, `size` is the number of outputs, `width` the encoder's.
    """
    expected = {}
    for layer, name in head.dense.items():
        rows = width if layer == "hidden" else head.size or size
        expected[f"{name}.weight"] = (rows, width)
        if head.biased:
            expected[f"{name}.bias"] = (rows,)
    held = {name: original for name, original in names.items() if name in expected}
    check_tensors(tensors, held, expected, f"the head of {head.architecture}")
    arrays = {name: tensors[held[name]] for name in expected}
    if SPAN in head.dense:
        kernel = arrays[f"{SPAN}.weight"]
        return {"start/kernel": kernel[:1].T, "end/kernel": kernel[1:].T}
    weights = {}
    for layer, name in head.dense.items():
        weights[f"{layer}/kernel"] = arrays[f"{name}.weight"].T
        if layer == "hidden" or head.size is None:
            zeros = np.zeros(arrays[f"{name}.weight"].shape[0], np.float32)
            weights[f"{layer}/bias"] = arrays.get(f"{name}.bias", zeros)
    return weights


def written_head(model: keras.Model, head: TaskHead, task: HeadTask) -> Arrays:
    """Return the tensors of a head by their names; of a regression scaled to tfnlp's scores."""
    weights = {w.path: np.asarray(w.numpy(), np.float32) for w in model.weights}
    if SPAN in head.dense:
        kernel = np.concatenate([weights["start/kernel"], weights["end/kernel"]], axis=1)
        kernel = np.ascontiguousarray(kernel.T)
        return {f"{SPAN}.weight": kernel, f"{SPAN}.bias": np.zeros(2, np.float32)}
    arrays = {}
    for layer, name in head.dense.items():
        kernel = weights[f"{layer}/kernel"]
        bias = weights.get(f"{layer}/bias", np.zeros(kernel.shape[1], np.float32))
        if layer == "classifier":
            kernel, bias = kernel * task.deviation, bias * task.deviation + task.mean
        arrays[f"{name}.weight"] = np.ascontiguousarray(kernel.T, np.float32)
        arrays[f"{name}.bias"] = np.ascontiguousarray(bias, np.float32)
    return arrays


def assign_head(model: keras.Model, weights: Mapping[str, np.ndarray]) -> None:
    """Set the weights of a task's head from a dict of path to array."""
    variables = {variable.path: variable for variable in model.weights}
    for path, array in weights.items():
        variables[path].assign(array)
