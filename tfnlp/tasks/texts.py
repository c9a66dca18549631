"""What the tasks of whole texts share: an example is a text or two, read as one sequence."""

from __future__ import annotations

import abc
import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Self

import tensorflow as tf

from tfnlp.data.labelled.examples import TaskExample, class_name
from tfnlp.layers import CRF
from tfnlp.tasks import report
from tfnlp.tasks.playground import Field, Playground
from tfnlp.tasks.sequences import Encoded, EncodedExamples, packed, rows_of, strings
from tfnlp.tasks.task import HeadTask, Inputs, Outputs, Prediction


class SegmentTask(HeadTask):
    """A task whose examples have segments, and perhaps choices, each sequence at most one vector.

    Its predictions follow from the outputs of the model alone.
    """

    def _texts(self, examples: Sequence[Any], texts: int, choices: int, first: int) -> list:
        """Return the texts of examples, each `[N]`, after a check that all have as many."""
        for number, example in enumerate(examples, first):
            if (len(example.segments), len(example.choices)) != (texts, choices):
                raise ValueError(
                    f"example {number} has {len(example.segments)} texts and "
                    f"{len(example.choices)} choices; expected {texts} and {choices}, as in "
                    "training"
                )
        return [tf.constant([e.segments[i] for e in examples]) for i in range(texts)]

    def predictions(
        self, outputs: Outputs, encoded: EncodedExamples, examples: Sequence[Any], crf: CRF | None
    ) -> list[Prediction]:
        return [self.named(row) for row in rows_of(self.decoded(outputs))]

    def named(self, row: Prediction) -> Prediction:
        """Return a decoded row for people, with the names of labels."""
        return row


class TextPlayground(Playground):
    """A text or a pair of texts on a page."""

    takes = ({"text"}, {"text_a", "text_b"})

    @property
    def fields(self) -> tuple[Field, ...]:
        if "text" in self.inputs:
            example = "The film was a delight from start to end."
            return (Field("text", "Texts, one a line", "lines", example),)
        return (
            Field("text_a", "First text", "text", "A man is playing a guitar."),
            Field("text_b", "Second text", "text", "Somebody makes music."),
        )

    def named(self, probabilities: Sequence[float]) -> dict[str, float]:
        """Return probabilities by the names of labels, or by their numbers if these don't fit."""
        names = self.labels
        if names is None or len(names) != len(probabilities):
            names = [str(number) for number in range(len(probabilities))]
        return dict(zip(names, probabilities, strict=True))


LABEL_TYPES = {"str": str, "int": int, "float": float, "bool": "True".__eq__}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTask(SegmentTask):
    """A task of a text or a pair of texts.

    Args:
        texts: number of texts of an example, 1 or 2.
    """

    texts: int = 1

    def check(self) -> None:
        if self.texts not in (1, 2):
            raise ValueError(f"texts={self.texts} must be 1 or 2")

    @property
    def pairs(self) -> bool:
        return self.texts == 2

    @property
    def count_of_texts(self) -> int:
        return self.texts

    @property
    def takes(self) -> str:
        return "a text (of pairs two texts)"

    def example_of(self, texts: Sequence[str], number: int) -> TaskExample:
        return TaskExample(tuple(texts), None)

    def suited_to(self, texts: int) -> Self:
        return dataclasses.replace(self, texts=texts) if texts in (1, 2) else self

    def misfit(self, example: Any) -> str:
        if len(example.segments) == self.texts:
            return ""
        return f"has {len(example.segments)} texts, the first one {self.texts}"

    def inputs_of(self, examples: Sequence[Any], first: int = 0) -> dict[str, Any]:
        return dict(zip(self._names, self._texts(examples, self.texts, 0, first), strict=True))

    @property
    def _names(self) -> list[str]:
        return ["text"] if self.texts == 1 else ["text_a", "text_b"]

    @property
    def signatures(self) -> dict[str, dict[str, tf.TensorSpec]]:
        return {"serving_default": {name: strings(name) for name in self._names}}

    def encode(self, reader: Any, inputs: Inputs, whole: bool) -> Encoded:
        segments, _, words = reader.read([inputs[name] for name in self._names])
        return {**packed(reader, segments, self.max_length), "words": words}

    def given(self, example: Any) -> dict[str, Any]:
        return dict(zip(self._names, example.segments, strict=True))

    def texts_cell(self, row: report.Row) -> report.Cell:
        """Return the texts of a row of a report as a cell."""
        return report.texts_cell([row[name] for name in self._names])


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedTask(TextTask):
    """A task of texts whose labels have names.

    Args:
        labels: their names, in the order of the model's outputs: that of names, of numbers that of
            their values.
        label_type: "str", "int", "float" or "bool", what the examples have; `returned` has it, too.
    """

    labels: tuple[str, ...] = ()
    label_type: str = "str"

    @classmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        labels = [label for e in examples for label in cls.labels_of(e)]
        types = {type(label).__name__ for label in labels}
        kind = "float" if types == {"int", "float"} else types.pop() if len(types) == 1 else "str"
        return cls(
            labels=tuple(in_order(map(class_name, labels))),
            label_type=kind,
            texts=len(examples[0].segments),
            max_length=values["max_length"],
        )

    @staticmethod
    @abc.abstractmethod
    def labels_of(example: Any) -> Sequence[Any]:
        """Return the labels of an example, as they were read."""

    @classmethod
    def classes_of(cls, example: Any) -> list[str]:
        return list(map(class_name, cls.labels_of(example)))

    @classmethod
    def label_counts(cls, examples: Sequence[Any]) -> collections.Counter:
        return collections.Counter(name for e in examples for name in cls.classes_of(e))

    def returned(self, prediction: Prediction) -> Prediction:
        found = {
            key: self._typed(x) if isinstance(x, str) else list(map(self._typed, x))
            for key, x in prediction.items()
            if key != "probabilities"
        }
        named = {self._typed(name): p for name, p in prediction["probabilities"].items()}
        return {**found, "probabilities": named}

    def _typed(self, name: str) -> Any:
        """Return a label as the examples that were learnt from have it."""
        try:
            return LABEL_TYPES[self.label_type](name)
        except ValueError:  # a label of a teacher
            return name


def in_order(names: Iterable[str]) -> list[str]:
    """Return different names in order: numbers, if all are, by their values."""
    found = sorted(set(names))
    try:
        return sorted(found, key=float)
    except ValueError:
        return found
