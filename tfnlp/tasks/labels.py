"""Any number of labels for a text or a pair of texts."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.examples import class_name
from tfnlp.data.labelled.label_sets import LabelSetRows
from tfnlp.settings.tasks import LabelsSettings
from tfnlp.tasks import report
from tfnlp.tasks.baselines import Baseline, quoted
from tfnlp.tasks.sequences import EncodedExamples, Targets
from tfnlp.tasks.task import Measures, Outputs, Prediction, Tensors
from tfnlp.tasks.texts import NamedTask, TextPlayground


class LabelsPlayground(TextPlayground):
    """The labels of each text on a page."""

    title = "Label"
    button = "Label"
    help = "All labels whose probability is at least their threshold."
    gives = {"labels", "probabilities"}

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        labels = [label for label in found["labels"] if label]
        return {"labels": labels, "probabilities": self.named(found["probabilities"])}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labels(NamedTask):
    """Any number of labels for a text or a pair of texts.

    Args:
        thresholds: for each the probability from which on it is predicted; (): 0.5.
    """

    name = "labels"
    Settings = LabelsSettings
    form = LabelSetRows()
    playground = LabelsPlayground
    output = "label"
    predicts = "labels"
    does = "say which labels texts have"
    pipeline = "text-classification"
    main_measure = "micro_f1"

    thresholds: tuple[float, ...] = ()

    def check(self) -> None:
        super().check()
        if not self.labels:
            raise ValueError("labels=() must be one or more; give examples that have labels")
        if self.thresholds and len(self.thresholds) != len(self.labels):
            raise ValueError(
                f"thresholds={self.thresholds!r:.60} must be {len(self.labels)} numbers, one for "
                "each label"
            )

    @staticmethod
    def labels_of(example: Any) -> Sequence[Any]:
        return example.label

    @classmethod
    def golds(cls, examples: Sequence[Any]) -> list[list[str]]:
        return [cls.classes_of(example) for example in examples]

    def gold_of(self, example: Any) -> tuple | None:
        return None if example.label is None else tuple(map(self._typed, self.classes_of(example)))

    def balanced(self, examples: Sequence[Any]) -> dict[str, float]:
        """Return `(n - n_k) / n_k`, n_k of n examples: both decisions then count alike.

        A label that all examples have counts as if one lacked it.
        """
        counts, total = self.label_counts(examples), len(examples)
        return {n: max(1, total - counts[n]) / max(1, counts[n]) for n in self.labels}

    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        held = [[label in gold for label in self.labels] for gold in self.golds(examples)]
        shape = (len(examples), len(self.labels))
        return {}, {"labels": np.array(held, np.float32).reshape(shape)}

    def decoded(self, outputs: Outputs) -> Tensors:
        """Return `labels`, strings `[B, K]`, and `probabilities` `[B, K]` of `label_logits`.

        A label whose probability is at least its threshold stands at its place, elsewhere "" does.
        """
        probabilities = tf.nn.sigmoid(outputs["label_logits"])
        thresholds = tf.constant(self._thresholds, tf.float32)
        labels = tf.where(probabilities >= thresholds, tf.constant(self.labels), "")
        return {"labels": labels, "probabilities": probabilities}

    @property
    def _thresholds(self) -> Sequence[float]:
        return self.thresholds or [0.5] * len(self.labels)

    def named(self, row: Prediction) -> Prediction:
        names = dict(zip(self.labels, row["probabilities"], strict=True))
        return {"labels": [label for label in row["labels"] if label], "probabilities": names}

    def shown(self, example: Any, prediction: Prediction) -> str:
        chosen = [f"{x} {prediction['probabilities'][x]:.3f}" for x in prediction["labels"]]
        return f"{', '.join(chosen) or '(none)'}  {' | '.join(example.segments)}"

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return what `label_sets` does."""
        found = [list(map(class_name, p["labels"])) for p in predictions]
        return label_sets(self.golds(examples), found, self.labels)

    def perfect(self, example: Any) -> Prediction:
        return {"labels": self.classes_of(example)}

    def baselines(self, golds: Sequence[Any]) -> dict[str, Baseline]:
        """Return the commonest set's share, and the micro F1 of the commonest label."""
        (chosen, count), *_ = collections.Counter(tuple(sorted(g)) for g in golds).most_common(1)
        single = collections.Counter(label for labels in golds for label in labels)
        every = ", ".join(map(quoted, chosen)) or "no label"
        found = {"subset_accuracy": Baseline(count / len(golds), f"always {every}")}
        if single:
            label, held = single.most_common(1)[0]
            f1 = 2 * held / (len(golds) + single.total())
            found["micro_f1"] = Baseline(f1, f"always {quoted(label)}")
        return found

    def tuned(
        self, examples: Sequence[Any], predictions: list[Prediction]
    ) -> tuple[Self, list[Prediction]]:
        """Return the task with the thresholds that are best on examples, see `best_threshold`."""
        names = self.labels
        gold = np.array([[name in x for name in names] for x in self.golds(examples)])  # [N, K]
        p = np.array([[row["probabilities"][n] for n in names] for row in predictions], np.float32)
        best = tuple(best_threshold(gold[:, k], p[:, k]) for k in range(len(names)))
        chosen = [
            [n for n, yes in zip(names, row, strict=True) if yes] for row in p >= np.float32(best)
        ]
        rows = [{**row, "labels": x} for row, x in zip(predictions, chosen, strict=True)]
        return dataclasses.replace(self, thresholds=best), rows

    def settled(
        self, examples: Sequence[Any], predictions: list[Prediction], measures: Measures
    ) -> tuple[Self, dict[str, Any]]:
        task, _ = self.tuned(examples, predictions)
        thresholds = dict(zip(self.labels, task.thresholds, strict=True))
        return task, {"metrics_at_0.5": measures, "thresholds": thresholds}

    def with_results(self, results: Mapping[str, Any]) -> Self:
        if "thresholds" not in results:
            return self
        return dataclasses.replace(self, thresholds=tuple(results["thresholds"].values()))

    worst_first = "a right decision was least probable"
    error_columns = ("missing", "too many", "right", "text")

    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        return report.bars(*self._by_label(rows))

    def tables(self, rows: Sequence[report.Row]) -> list[report.Table]:
        names, counts, found = self._by_label(rows)
        measured = ("precision", "recall", "f1")
        cells = [
            [n, *(report.measure(found.get(f"{m}/{n}")) for m in measured), str(counts[n])]
            for n in names
        ]
        head = ["label", "precision", "recall", "F1", "in the data"]
        return [report.Table("By label", head, cells)]

    def _by_label(
        self, rows: Sequence[report.Row]
    ) -> tuple[list[str], collections.Counter, Measures]:
        """Return the 20 commonest labels, how often each is in the data, and their measures."""
        gold, found = ([list(map(class_name, row[n])) for row in rows] for n in ("gold", "labels"))
        counts = collections.Counter(name for names in gold for name in names)
        names = sorted(self.labels, key=lambda name: (-counts[name], name))[: report.SHOWN]
        return names, counts, label_sets(gold, found, names)

    def is_wrong(self, row: report.Row) -> bool:
        return set(row["labels"]) != set(row["gold"])

    def badness(self, row: report.Row) -> float:
        """Return minus the smallest probability of a decision that would have been right."""
        gold, p = set(row["gold"]), row["probabilities"].items()
        return -min((x if name in gold else 1 - x for name, x in p), default=0.0)

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        gold, guess = set(row["gold"]), set(row["labels"])
        marks = ((gold - guess, "right"), (guess - gold, "wrong"), (gold & guess, None))
        names = [
            [(", ".join(sorted(map(class_name, labels))) or "–", mark)] for labels, mark in marks
        ]
        return [*names, self.texts_cell(row)]

    def files(self, crf: Any) -> dict[str, Any]:
        return {"thresholds.json": dict(zip(self.labels, self._thresholds, strict=True))}


def label_sets(
    labels: Sequence[Iterable[str]], predicted: Sequence[Iterable[str]], names: Iterable[str]
) -> Measures:
    """Return F1 of sets of labels, their exact matches, and the measures of each label.

    They are `micro_f1` over all decisions, `macro_f1`, the mean over the labels that occur in
    labels or predictions, `samples_f1`, the mean over examples (1 where there is no label and none
    is predicted), `subset_accuracy`, the share of examples all of whose labels are right; and
    `f1/NAME`, `precision/NAME` (0 where nothing is predicted) and `recall/NAME` for each of `names`
    that an example has. Other labels that occur are never predicted. Without any label there is no
    micro and macro F1.
    """
    labels, predicted = [set(x) for x in labels], [set(x) for x in predicted]
    names = list(names)
    known = set(names)
    every = [*names, *sorted(set().union(*labels, *predicted) - known)]
    gold, guess = (np.array([[n in row for n in every] for row in x]) for x in (labels, predicted))
    right, both = gold & guess, gold.astype(int) + guess  # F1 is 2 right / both
    occurs = both.sum(0) > 0
    rows = np.where(both.sum(1) > 0, _ratio(2 * right.sum(1), both.sum(1)), 1.0)
    of_labels = {
        "f1": _ratio(2 * right.sum(0), both.sum(0)),
        "precision": _ratio(right.sum(0), guess.sum(0)),
        "recall": _ratio(right.sum(0), gold.sum(0)),
    }
    f1 = {
        "micro_f1": float(_ratio(2 * right.sum(), both.sum())),
        "macro_f1": float(of_labels["f1"][occurs].mean()),
    } if gold.any() else {}  # fmt: skip
    values = {
        **f1,
        "samples_f1": float(rows.mean()),
        "subset_accuracy": float((gold == guess).all(1).mean()),
    }
    for name, column in of_labels.items():
        values |= {
            f"{name}/{n}": float(x)
            for n, x, held in zip(every, column, gold.any(0), strict=True)
            if n in known and held
        }
    return values


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return `part / whole`, 0 where `whole` is 0."""
    return part / np.maximum(whole, 1)


def best_threshold(gold: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the threshold with the best F1 of a label, `F1 = 2 tp / (predicted + gold)`.

    All sets that a threshold can choose are compared; `gold` `[N]` says which examples have the
    label. The threshold lies halfway between the probabilities on either side of it. It is 0.5 if
    none is better, and of several the nearest to 0.5.
    """
    order = np.argsort(-probabilities, kind="stable")
    p, found = probabilities[order].astype(np.float32), np.cumsum(gold[order])
    f1 = 2 * found / (np.arange(1, len(p) + 1) + gold.sum())
    below = np.append(p[1:], 0.0).astype(np.float32)
    middle = ((p.astype(np.float64) + below) / 2).astype(np.float32)
    thresholds = np.where(middle > below, middle, p)  # neighbours have no number between them
    f1[p == below] = -1  # equal probabilities are chosen together
    half = probabilities >= 0.5
    at_half = 2 * (gold & half).sum() / max(1, gold.sum() + half.sum())
    if not gold.any() or at_half >= f1.max():
        return 0.5
    best = thresholds[f1 == f1.max()]
    return float(best[np.abs(best - 0.5).argmin()])
