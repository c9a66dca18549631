"""A class for a text or a pair of texts."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf
from sklearn.metrics import f1_score, matthews_corrcoef

from tfnlp.data.labelled.examples import ClassRows
from tfnlp.settings.classify import ClassifySettings
from tfnlp.tasks import report
from tfnlp.tasks.baselines import Baseline, commonest, f1_of_one, quoted
from tfnlp.tasks.playground import Playground
from tfnlp.tasks.sequences import Columns, EncodedExamples
from tfnlp.tasks.task import Measures, Prediction, Tensors
from tfnlp.tasks.texts import TextPlayground, TextTask


class ClassifyPlayground(TextPlayground):
    """The class of each text on a page."""

    title: ClassVar[str] = "Classify"
    button: ClassVar[str] = "Classify"
    help: ClassVar[str] = "The label of each text, and the probability of all."
    gives: ClassVar[Set[str]] = {"label", "probabilities"}

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        return {"label": found["label"], "probabilities": self.named(found["probabilities"])}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classify(TextTask):
    """A class for a text or a pair of texts.

    Args:
        labels: names of the classes, in the order of the model's outputs.
    """

    name: ClassVar[str] = "classify"
    Settings: ClassVar[type] = ClassifySettings
    form: ClassVar[ClassRows] = ClassRows()
    playground: ClassVar[type[Playground]] = ClassifyPlayground
    output: ClassVar[str] = "class"
    does: ClassVar[str] = "classify texts"
    pipeline: ClassVar[str] = "text-classification"
    main_measure: ClassVar[str] = "accuracy"

    labels: tuple[str, ...] = ()

    def check(self) -> None:
        super().check()
        if len(self.labels) < 2:
            raise ValueError(
                f"labels={self.labels!r} must be two or more; give examples of different labels"
            )

    @classmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        labels = tuple(sorted({e.label for e in examples}))
        length = values["max_length"]
        return cls(labels=labels, texts=len(examples[0].segments), max_length=length)

    def misfit(self, example: Any) -> str:
        if example.label not in self.labels:
            return (
                f"has the label {example.label!r}, which no example to learn from has: "
                f"{', '.join(self.labels[:10])}"
            )
        return super().misfit(example)

    def some_label(self, example: Any) -> Any:
        return dataclasses.replace(example, label=self.labels[0])

    @classmethod
    def strata(cls, examples: Sequence[Any]) -> list[str]:
        return cls.golds(examples)

    def targets(
        self, encoded: EncodedExamples, examples: Sequence[Any]
    ) -> tuple[Columns, dict[str, np.ndarray]]:
        index = {label: i for i, label in enumerate(self.labels)}
        return {}, {"labels": np.array([index[e.label] for e in examples], np.int32)}

    def decoded(self, outputs: Mapping[str, tf.Tensor]) -> Tensors:
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
        found = [p["label"] for p in predictions]
        return classification(self.golds(examples), found, self.labels)

    def perfect(self, example: Any) -> Prediction:
        known = example.label in self.labels
        return {"label": example.label if known else self.labels[0]}

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

    worst_first: ClassVar[str] = "the gold class was least probable"
    error_columns: ClassVar[tuple[str, ...]] = ("gold", "predicted", "p(gold)", "text")

    def chart(self, rows: Sequence[report.Row]) -> report.Chart:
        truth, guess = ([row[name] for row in rows] for name in ("gold", "label"))
        return report.Confusion(truth, guess, self.labels)

    def tables(self, rows: Sequence[report.Row]) -> list[report.Table]:
        truth, guess = ([row[name] for row in rows] for name in ("gold", "label"))
        return [report.by_class(truth, guess, self.labels)]

    def badness(self, row: report.Row) -> float:
        return -row["probabilities"].get(row["gold"], 0.0)

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        return [
            [(row["gold"], "right")],
            [(row["label"], "wrong")],
            [(f"{-self.badness(row):.4f}", None)],
            self.texts_cell(row),
        ]


def classification(
    labels: Iterable[str], predicted: Iterable[str], names: Iterable[str]
) -> Measures:
    """Return accuracy, Matthews correlation and F1 of classes.

    Matthews correlation (of K classes: Gorodkin 2004) is 0 where it is undefined, because all
    labels or all predictions are the same class. F1 = 2 P R / (P + R), 0 for a class that is
    never predicted.

    Args:
        labels, predicted: strings, one an example.
        names: names of all classes, in order.

    Returns:
        dict of floats: `accuracy`, `matthews`, `f1`. With exactly two classes `f1` is that of the
        positive class, which is `names[1]` (MRPC and QQP: "1"), and `f1_macro` is the mean of
        both. Otherwise `f1` is the mean over the classes that occur in labels or predictions.

    Raises:
        ValueError: for a class that is not in `names`.
    """
    labels, predicted, names = list(labels), list(predicted), list(names)
    unknown = sorted((set(labels) | set(predicted)) - set(names), key=repr)
    if unknown:
        raise ValueError(f"labels: {unknown[0]!r} is not among the classes {names[:20]}")
    pairs = list(zip(labels, predicted, strict=True))
    # scikit-learn warns where only one class occurs.
    one_class = len(set(labels) | set(predicted)) == 1
    macro = float(f1_score(labels, predicted, average="macro", zero_division=0))
    values = {
        "accuracy": sum(a == b for a, b in pairs) / len(pairs),
        "matthews": 0.0 if one_class else float(matthews_corrcoef(labels, predicted)),
        "f1": macro,
    }
    if len(names) == 2:
        # The "macro average" over one class is its F1, also where the class does not occur.
        positive = f1_score(labels, predicted, labels=[names[1]], average="macro", zero_division=0)
        values |= {"f1": float(positive), "f1_macro": macro}
    return values
