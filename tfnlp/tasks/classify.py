"""A class for a text or a pair of texts."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.metrics import f1_score, matthews_corrcoef

from tfnlp.data.labelled.examples import ClassRows, class_name
from tfnlp.settings.tasks import ClassifySettings
from tfnlp.tasks import report
from tfnlp.tasks.baselines import Baseline, commonest, f1_of_one, quoted
from tfnlp.tasks.sequences import EncodedExamples, Targets
from tfnlp.tasks.task import Measures, Outputs, Prediction, Tensors
from tfnlp.tasks.texts import NamedTask, TextPlayground


class ClassifyPlayground(TextPlayground):
    """The class of each text on a page."""

    title = "Classify"
    button = "Classify"
    help = "The label of each text, and the probability of all."
    gives = {"label", "probabilities"}

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        return {"label": found["label"], "probabilities": self.named(found["probabilities"])}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classify(NamedTask):
    """A class for a text or a pair of texts."""

    name = "classify"
    Settings = ClassifySettings
    form = ClassRows()
    playground = ClassifyPlayground
    output = "class"
    does = "classify texts"
    pipeline = "text-classification"
    main_measure = "accuracy"

    def check(self) -> None:
        super().check()
        if len(self.labels) < 2:
            raise ValueError(
                f"labels={self.labels!r} must be two or more; give examples of different labels"
            )

    @staticmethod
    def labels_of(example: Any) -> Sequence[Any]:
        return [example.label]

    @classmethod
    def golds(cls, examples: Sequence[Any]) -> list[str]:
        return [class_name(e.label) for e in examples]

    def gold_of(self, example: Any) -> Any:
        return None if example.label is None else self._typed(class_name(example.label))

    def some_label(self, example: Any) -> Any:
        return dataclasses.replace(example, label=self.labels[0])

    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        index = {label: i for i, label in enumerate(self.labels)}
        return {}, {"labels": np.array([index[x] for x in self.golds(examples)], np.int32)}

    def decoded(self, outputs: Outputs) -> Tensors:
        """Return the `label`, strings `[B]`, and `probabilities` `[B, K]` of `class_logits`."""
        probabilities = tf.nn.softmax(outputs["class_logits"])
        best = tf.argmax(probabilities, -1)
        return {"label": tf.gather(tf.constant(self.labels), best), "probabilities": probabilities}

    def named(self, row: Prediction) -> Prediction:
        names = dict(zip(self.labels, row["probabilities"], strict=True))
        return {**row, "probabilities": names}

    def shown(self, example: Any, prediction: Prediction) -> str:
        chosen = prediction["label"]
        text = " | ".join(example.segments)
        return f"{chosen} {prediction['probabilities'][chosen]:.3f}  {text}"

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return accuracy, matthews and f1, see `classification`."""
        found = [class_name(p["label"]) for p in predictions]
        return classification(self.golds(examples), found, self.labels)

    def perfect(self, example: Any) -> Prediction:
        (label,) = self.golds([example])
        return {"label": label if label in self.labels else self.labels[0]}

    def baselines(self, golds: Sequence[Any]) -> dict[str, Baseline]:
        """Return accuracy and F1; of two classes F1 is that of the second, see `classification`."""
        counts = collections.Counter(golds)
        value, most = counts.most_common(1)[0]
        mean = f1_of_one(most, len(golds)) / len(counts)  # the others have F1 0
        found = {"accuracy": commonest(golds), "f1": Baseline(mean, f"always {quoted(value)}")}
        if len(self.labels) == 2:
            second = self.labels[1]
            found["f1_macro"] = found["f1"]
            positive = f1_of_one(counts[second], len(golds))
            found["f1"] = Baseline(positive, f"always {quoted(second)}")
        return found

    worst_first = "the gold class was least probable"
    error_columns = ("gold", "predicted", "p(gold)", "text")

    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        truth, guess = ([class_name(row[name]) for row in rows] for name in ("gold", "label"))
        return report.confusion(truth, guess, self.labels)

    def tables(self, rows: Sequence[report.Row]) -> list[report.Table]:
        truth, guess = ([class_name(row[name]) for row in rows] for name in ("gold", "label"))
        return [report.by_class(truth, guess, self.labels)]

    def badness(self, row: report.Row) -> float:
        return -row["probabilities"].get(row["gold"], 0.0)

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        return [
            [(class_name(row["gold"]), "right")],
            [(class_name(row["label"]), "wrong")],
            [(f"{-self.badness(row):.4f}", None)],
            self.texts_cell(row),
        ]


def classification(
    labels: Iterable[str], predicted: Iterable[str], names: Iterable[str]
) -> Measures:
    """Return accuracy, Matthews correlation and F1 of classes.

    `matthews` (of K classes: Gorodkin 2004) is 0 where all predictions are the same class; where
    all labels are, there is none. F1 = 2 P R / (P + R), 0 for a class that is never predicted. With
    exactly two `names` of classes `f1` is that of the positive class, which is `names[1]` (MRPC and
    QQP: "1"), if any example has it, and `f1_macro` is the mean of both. Otherwise `f1` is the mean
    over the classes that occur in labels or predictions.
    """
    labels, predicted, names = list(labels), list(predicted), list(names)
    pairs = list(zip(labels, predicted, strict=True))
    macro = float(f1_score(labels, predicted, average="macro", zero_division=0))
    values = {"accuracy": sum(a == b for a, b in pairs) / len(pairs)}
    if len(set(labels)) > 1:
        values["matthews"] = float(matthews_corrcoef(labels, predicted))
    if len(names) != 2:
        return {**values, "f1": macro}
    if names[1] in labels:
        # The "macro average" over one class is its F1.
        positive = f1_score(labels, predicted, labels=[names[1]], average="macro", zero_division=0)
        values["f1"] = float(positive)
    return {**values, "f1_macro": macro}
