"""What the tasks of whole texts share: an example is a text or two, read as one sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, ClassVar, Self

import tensorflow as tf

from tfnlp.data.labelled.examples import TaskExample
from tfnlp.layers import CRF
from tfnlp.tasks import report
from tfnlp.tasks.playground import Field, Playground
from tfnlp.tasks.sequences import Encoded, EncodedExamples, packed
from tfnlp.tasks.task import HeadTask, Prediction, rows_of, strings


class SegmentTask(HeadTask):
    """A task whose examples have segments, and perhaps choices, each sequence at most one vector.

    Its predictions follow from the outputs of the model alone.
    """

    def words_of(self, example: Any, split: Callable[[str], str]) -> Iterator[Sequence[str]]:
        for text in (*example.segments, *example.choices):
            yield split(text).split()

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
        self,
        outputs: Mapping[str, Any],
        encoded: EncodedExamples,
        examples: Sequence[Any],
        crf: CRF | None,
    ) -> list[Prediction]:
        return [self.named(row) for row in rows_of(self.decoded(outputs))]

    def named(self, row: Prediction) -> Prediction:
        """Return a decoded row for people, with the names of labels."""
        return row


class TextPlayground(Playground):
    """A text or a pair of texts on a page."""

    takes: ClassVar[tuple[Set[str], ...]] = ({"text"}, {"text_a", "text_b"})

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

    def encode(self, reader: Any, inputs: Mapping[str, Any], whole: bool) -> Encoded:
        segments, _, words = reader.read([inputs[name] for name in self._names])
        return {**packed(reader, segments, self.max_length), "words": words}

    def given(self, example: Any) -> dict[str, Any]:
        return dict(zip(self._names, example.segments, strict=True))

    def texts_cell(self, row: report.Row) -> report.Cell:
        """Return the texts of a row of a report as a cell."""
        return report.texts_cell([row[name] for name in self._names])
