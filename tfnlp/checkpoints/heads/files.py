"""What a fine-tuned checkpoint holds: the task, its labels and the tensors of its head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfnlp.checkpoints.mapping import Row

# Key of config.json with the settings of a task that Hugging Face has no word for.
SPEC = "tfnlp_task"
SPAN = "qa_outputs"


@dataclass(frozen=True)
class TaskHead:
    """The class of transformers for one kind of output, and the names of its head.

    Attributes:
        architecture: name of the class.
        dense: layer of the task's model ("classifier", "hidden") to the name of a `Linear`; of
            "span" both layers, start and end, are rows of one `Linear`, `SPAN`.
        pooler: whether the head stands on the encoder's pooler.
        biased: whether the file holds biases.
        size: the number of outputs, where it does not depend on the task: a constant that is
            added to all choices, or to all places of an answer, changes no prediction, so that
            these biases have no place in tfnlp's heads.
    """

    architecture: str
    dense: Mapping[str, str]
    pooler: bool = False
    biased: bool = True
    size: int | None = None

    def beginnings(self, pooler: str | None = None) -> list[str]:
        """Return what the names of the head's tensors begin with, but for those of the pooler."""
        inside = pooler or "\0"
        return [f"{name}." for name in self.dense.values() if not f"{name}.".startswith(inside)]


def task_heads(
    prefix: str,
    pooled: Mapping[str, str] | None = None,
    choice: Mapping[str, str] | None = None,
) -> dict[str, TaskHead]:
    """Return the heads of an encoder: kind of output to `TaskHead`.

    Args:
        prefix: of the names of the classes, such as "Bert".
        pooled: `dense` of whole texts where they don't stand on the encoder's pooler: "hidden" and
            "classifier".
        choice: the same of multiple choice, if it is different.
    """
    usual = {"classifier": "classifier"}
    whole = TaskHead(f"{prefix}ForSequenceClassification", pooled or usual, pooled is None)
    return {
        "class": whole,
        "label": whole,
        "score": whole,
        "choice": TaskHead(
            f"{prefix}ForMultipleChoice", choice or whole.dense, whole.pooler, size=1
        ),
        "tag": TaskHead(f"{prefix}ForTokenClassification", usual),
        "span": TaskHead(f"{prefix}ForQuestionAnswering", {SPAN: SPAN}, size=2),
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
class TaskFiles:
    """How a family reads and writes fine-tuned checkpoints.

    Attributes:
        architectures: the classes of transformers that can be read.
        read: function of (path, class, dtype) to a `FineTuned`.
        write: function of (folder, `TaskModel`, arguments of the backbone, overwrite).
        parts: function of (`TaskModel`, arguments of the backbone) to `ClassParts`; None where the
            classes have no such parts.
    """

    architectures: frozenset[str]
    read: Callable[..., FineTuned]
    write: Callable[..., None]
    parts: Callable[..., ClassParts] | None = None


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
