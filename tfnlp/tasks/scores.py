"""Several numbers, each with a name, for a text or a pair of texts."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.label_sets import ScoreSetRows
from tfnlp.settings.tasks import ScoresSettings
from tfnlp.tasks import report
from tfnlp.tasks.baselines import Baseline
from tfnlp.tasks.sequences import EncodedExamples, Targets
from tfnlp.tasks.similarity import regression
from tfnlp.tasks.task import Measures, Outputs, Prediction, Tensors
from tfnlp.tasks.texts import TextPlayground, TextTask

_MEASURES = ("pearson", "spearman", "mse")  # of each score


class ScoresPlayground(TextPlayground):
    """The scores of texts on a page."""

    title = "Score"
    button = "Score"
    help = "The scores, in the units of the data that the model was trained on."
    gives = {"scores"}

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        return {"scores": self.named(found["scores"])}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores(TextTask):
    """Several numbers for a text or a pair of texts.

    Args:
        labels: their names, in the order of the model's outputs.
        means, deviations: of the training data's, for each; the model's outputs are
            `(score - mean) / deviation`. (): 0 and 1.
    """

    name = "scores"
    Settings = ScoresSettings
    form = ScoreSetRows()
    playground = ScoresPlayground
    output = "scores"
    predicts = "scores"
    does = "give texts several scores"
    pipeline = "text-classification"
    main_measure = "pearson"

    labels: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    def check(self) -> None:
        super().check()
        if not self.labels:
            raise ValueError("labels=() must be one or more; give examples that have scores")
        for name in ("means", "deviations"):
            if len(getattr(self, name)) not in (0, len(self.labels)):
                raise ValueError(f"{name} must be {len(self.labels)} numbers, one for each score")

    @classmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        names = tuple(name for name, _ in examples[0].label)
        golds = cls.golds(examples)
        scores = np.array(_columns([gold for gold in golds if {*gold} == {*names}], names))
        return cls(
            labels=names,
            means=tuple(scores.mean(0).tolist()),
            deviations=tuple(d or 1.0 for d in scores.std(0).tolist()),
            texts=len(examples[0].segments),
            max_length=values["max_length"],
        )

    @classmethod
    def golds(cls, examples: Sequence[Any]) -> list[dict[str, float]]:
        return [dict(example.label) for example in examples]

    @classmethod
    def label_counts(cls, examples: Sequence[Any]) -> collections.Counter:
        return collections.Counter(name for gold in cls.golds(examples) for name in gold)

    def gold_of(self, example: Any) -> dict[str, float] | None:
        return None if example.label is None else dict(example.label)

    def misfit(self, example: Any) -> str:
        return self._other_scores(example) or super().misfit(example)

    def _other_scores(self, example: Any) -> str:
        found = sorted(name for name, _ in example.label)
        if found == sorted(self.labels):
            return ""
        return f"has the scores {', '.join(found)}; expected {', '.join(self.labels)}"

    @property
    def mean(self) -> np.ndarray:
        """The means `[K]`."""
        return np.array(self.means or [0.0] * len(self.labels))

    @property
    def deviation(self) -> np.ndarray:
        """The deviations `[K]`."""
        return np.array(self.deviations or [1.0] * len(self.labels))

    def rescaled(self) -> Self:
        return dataclasses.replace(self, means=(), deviations=())

    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        scores = np.array(_columns(self.golds(examples), self.labels))
        return {}, {"labels": np.float32((scores - self.mean) / self.deviation)}

    def decoded(self, outputs: Outputs) -> Tensors:
        """Return the `scores` `[B, K]` in the units of the training data."""
        scores = tf.convert_to_tensor(outputs["scores"])
        return {"scores": scores * np.float32(self.deviation) + np.float32(self.mean)}

    def named(self, row: Prediction) -> Prediction:
        return {"scores": dict(zip(self.labels, row["scores"], strict=True))}

    def shown(self, example: Any, prediction: Prediction) -> str:
        return f"{_listed(prediction['scores'])}  {' | '.join(example.segments)}"

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return Pearson's and Spearman's correlation and the mean squared error of each score.

        They are `pearson/NAME` and so on; `pearson`, `spearman` and `mse` are their means.
        """
        for number, example in enumerate(examples, 1):
            if other := self._other_scores(example):
                raise ValueError(f"example {number} {other}")
        found = self._by_score(self.golds(examples), [p["scores"] for p in predictions])
        values: Measures = {}
        for measure in _MEASURES:
            each = {name: row[measure] for name, row in found.items() if measure in row}
            if each:
                values[measure] = sum(each.values()) / len(each)
            values |= {f"{measure}/{name}": value for name, value in each.items()}
        return values

    def _by_score(
        self, golds: Sequence[Mapping[str, float]], guesses: Sequence[Mapping[str, float]]
    ) -> dict[str, Measures]:
        """Return for each score what `regression` does."""
        return {
            name: regression([gold[name] for gold in golds], [guess[name] for guess in guesses])
            for name in self.labels
        }

    def perfect(self, example: Any) -> Prediction:
        return {"scores": dict(example.label)}

    def distinct_answers(self, predictions: Sequence[Prediction]) -> set[str]:
        """Return the scores in steps of a tenth of the deviations from those of the first."""
        scores = np.array(_columns([p["scores"] for p in predictions], self.labels))
        steps = np.round(10 * (scores - scores[0]) / self.deviation) * self.deviation / 10
        return {_listed(self.named({"scores": row})["scores"]) for row in scores[0] + steps}

    def baselines(self, golds: Sequence[Any]) -> dict[str, Baseline]:
        errors = np.var(_columns(golds, self.labels), axis=0)
        found = {"mse": Baseline(float(errors.mean()), "always the means")}
        for name, error in zip(self.labels, errors.tolist(), strict=True):
            found[f"mse/{name}"] = Baseline(error, "always the mean")
        return found

    worst_first = "a difference is largest, in deviations"
    error_columns = ("gold", "predicted", "text")

    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        gold, guess = (self._standardised(rows, name) for name in ("gold", "scores"))
        title = "Predicted and gold scores, in deviations from their means"
        return report.scatter(gold.ravel().tolist(), guess.ravel().tolist(), title)

    def tables(self, rows: Sequence[report.Row]) -> list[report.Table]:
        found = self._by_score(*([row[name] for row in rows] for name in ("gold", "scores")))
        units = zip(self.mean, self.deviation, strict=True)
        cells = [
            [name, *(report.measure(row.get(m)) for m in _MEASURES), *map("{:.3f}".format, unit)]
            for (name, row), unit in zip(found.items(), units, strict=True)
        ]
        head = ["score", "Pearson", "Spearman", "squared error", "mean", "deviation"]
        return [report.Table("By score", head, cells)]

    def _standardised(self, rows: Sequence[report.Row], name: str) -> np.ndarray:
        return (_columns([row[name] for row in rows], self.labels) - self.mean) / self.deviation

    def badness(self, row: report.Row) -> float:
        gold, guess = (self._standardised([row], name) for name in ("gold", "scores"))
        return float(np.abs(gold - guess).max())

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        gold, guess = ([(_listed(row[name]), mark)]
                       for name, mark in (("gold", "right"), ("scores", "wrong")))  # fmt: skip
        return [gold, guess, self.texts_cell(row)]


def _columns(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> list[list[float]]:
    """Return numbers by name as rows `[N, K]`, in the order of the names."""
    return [[float(row[name]) for name in names] for row in rows]


def _listed(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
