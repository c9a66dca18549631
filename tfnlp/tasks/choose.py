"""Which of several texts goes on from a text."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.choices import ChoiceRows
from tfnlp.data.labelled.examples import TaskExample
from tfnlp.settings.tasks import ChooseSettings
from tfnlp.tasks import report
from tfnlp.tasks.baselines import Baseline, commonest
from tfnlp.tasks.playground import Field, Playground
from tfnlp.tasks.sequences import Encoded, EncodedExamples, Targets, packed, strings
from tfnlp.tasks.task import Inputs, Measures, Outputs, Prediction, Tensors
from tfnlp.tasks.texts import SegmentTask


class ChoosePlayground(Playground):
    """A text and its choices on a page."""

    title = "Choose"
    button = "Choose"
    help = "The choice that goes on best."
    takes = ({"text", "choices"},)
    gives = {"choice", "probabilities"}

    @property
    def _count(self) -> int | None:
        """The number of choices; None: any."""
        return self.inputs["choices"].shape[1]

    @property
    def fields(self) -> tuple[Field, ...]:
        count = self._count
        example = ["we stayed at home.", "the sun burnt us.", "the fish flew.", "the tea was blue."]
        label = f"Choices, one a line{f' ({count})' if count else ''}"
        return (
            Field("text", "Text", "text", "It rained all day, so"),
            Field("choices", label, "list", "\n".join(example[: count or 3])),
        )

    def check(self, row: Mapping[str, Any]) -> None:
        given, count = len(row["choices"]), self._count
        if given < 2 or (count is not None and given != count):
            wanted = "two or more" if count is None else count
            raise ValueError(f"choices holds {given} texts; this module takes {wanted}")

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        chosen = {"choice": found["choice"], "text": row["choices"][found["choice"]]}
        return {**chosen, "probabilities": found["probabilities"]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choose(SegmentTask):
    """Which of several texts goes on from a text.

    Args:
        choices: how many there are of an example.
    """

    name = "choose"
    Settings = ChooseSettings
    form = ChoiceRows()
    playground = ChoosePlayground
    output = "choice"
    predicts = "choice"
    does = "choose the text that goes on from another"
    pipeline = "multiple-choice"
    pairs = True
    main_measure = "accuracy"

    choices: int = 0

    def check(self) -> None:
        if self.choices < 2:
            raise ValueError(f"choices={self.choices} must be at least 2")

    @classmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        return cls(choices=len(examples[0].choices), max_length=values["max_length"])

    @classmethod
    def of_checkpoint(cls, labels: Sequence[str], positions: int) -> Self:
        return cls(choices=2, max_length=min(512, positions))  # until rows say how many there are

    @property
    def sequences(self) -> int:
        return self.choices

    @property
    def count_of_texts(self) -> int:
        return 1 + self.choices

    @property
    def takes(self) -> str:
        return f"a text and {self.choices} choices"

    def example_of(self, texts: Sequence[str], number: int) -> TaskExample:
        return TaskExample((texts[0],), None, tuple(texts[1:]))

    def suited_to(self, texts: int) -> Self:
        return dataclasses.replace(self, choices=texts - 1) if texts > 2 else self

    def misfit(self, example: Any) -> str:
        if len(example.choices) == self.choices:
            return ""
        return (
            f"has {len(example.choices)} choices, the first one {self.choices}; expected as many "
            "in all"
        )

    def some_label(self, example: Any) -> Any:
        return dataclasses.replace(example, label=0)

    def inputs_of(self, examples: Sequence[Any], first: int = 0) -> dict[str, Any]:
        (text,) = self._texts(examples, 1, self.choices, first)
        return {"text": text, "choices": tf.constant([e.choices for e in examples])}

    @property
    def signatures(self) -> dict[str, dict[str, tf.TensorSpec]]:
        choices = tf.TensorSpec([None, self.choices], "string", name="choices")
        return {"serving_default": {"text": strings("text"), "choices": choices}}

    def encode(self, reader: Any, inputs: Inputs, whole: bool) -> Encoded:
        choices = tf.reshape(inputs["choices"], [-1])
        (first, second), _, words = reader.read([inputs["text"], choices])
        rows = tf.repeat(tf.range(first.nrows()), self.choices)
        flat = packed(reader, [tf.gather(first, rows), second], self.max_length)  # [N*C, ...]
        found = tf.nest.map_structure(
            lambda x: tf.reshape(x, tf.concat([[-1, self.choices], tf.shape(x)[1:]], 0)), flat
        )
        return {**found, "words": words}

    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        return {}, {"labels": np.array(self.golds(examples), np.int32)}

    def decoded(self, outputs: Outputs) -> Tensors:
        """Return the `choice`, int32 `[B]`, and `probabilities` `[B, C]` of `choice_logits`."""
        probabilities = tf.nn.softmax(outputs["choice_logits"])
        best = tf.argmax(probabilities, -1, output_type="int32")
        return {"choice": best, "probabilities": probabilities}

    def shown(self, example: Any, prediction: Prediction) -> str:
        chosen = prediction["choice"]
        share = prediction["probabilities"][chosen]
        return f"{chosen} {share:.3f}  {example.segments[0]} {example.choices[chosen]}"

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return accuracy."""
        right = [p["choice"] == e.label for e, p in zip(examples, predictions, strict=True)]
        return {"accuracy": sum(right) / len(right)}

    def perfect(self, example: Any) -> Prediction:
        return {"choice": example.label}

    def baselines(self, golds: Sequence[Any]) -> dict[str, Baseline]:
        choice = collections.Counter(golds).most_common(1)[0][0] + 1
        found = dataclasses.replace(commonest(golds), guess=f"always choice {choice}")
        return {"accuracy": found}

    @property
    def example_settings(self) -> dict[str, Any]:
        return {"choices": self.choices}

    def given(self, example: Any) -> dict[str, Any]:
        return {"text": example.segments[0], "choices": list(example.choices)}

    worst_first = "the gold choice was least probable"
    error_columns = ("text", "choices, with their probability")

    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        right, wrong = (
            [-self.badness(row) for row in rows if self.is_wrong(row) is bad]
            for bad in (False, True)
        )
        groups = {"right": right, "wrong": wrong}
        axis = "probability of the gold choice"
        return report.histogram("How sure of the gold choice", axis, groups, (0.0, 1.0))

    def badness(self, row: report.Row) -> float:
        return -row["probabilities"][row["gold"]]

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        cell: report.Cell = []
        for index, choice in enumerate(row["choices"]):
            mark = {row["gold"]: "right", row["choice"]: "wrong"}.get(index)
            cell += [(f"{row['probabilities'][index]:.3f}  ", None), (report.short(choice), mark)]
            cell.append(("\n", None))
        return [report.texts_cell([row["text"]]), cell[:-1]]
