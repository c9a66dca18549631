"""A number for a text or a pair of texts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf
from scipy import stats

from tfnlp.data.labelled.examples import ScoreRows
from tfnlp.settings.tasks import SimilaritySettings
from tfnlp.tasks import report
from tfnlp.tasks.baselines import Baseline
from tfnlp.tasks.sequences import Arrays, Encoded, EncodedExamples, Targets, packed, soft_weights
from tfnlp.tasks.task import Inputs, Measures, Outputs, Prediction, Tensors
from tfnlp.tasks.texts import TextPlayground, TextTask


class SimilarityPlayground(TextPlayground):
    """The score of texts on a page."""

    title = "Compare"
    button = "Compare"
    help = "The score, in the units of the data that the model was trained on."
    gives = {"score"}

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        return {"score": found["score"]}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Similarity(TextTask):
    """A number for a pair of texts, or for a text.

    Args:
        mean, deviation: of the training data's scores; the model's score is
            `(score - mean) / deviation`.
        both_orders: read a pair in both orders and add the vectors (Radford et al. 2018,
            section 3.3): which text comes first means nothing.
    """

    name = "similarity"
    Settings = SimilaritySettings
    form = ScoreRows()
    playground = SimilarityPlayground
    output = "score"
    predicts = "score"
    does = "say how similar two texts are"
    pipeline = "text-classification"
    main_measure = "pearson"

    both_orders: bool = False
    mean: float = 0.0
    deviation: float = 1.0

    def check(self) -> None:
        super().check()
        if self.both_orders and self.texts != 2:
            raise ValueError(f"texts={self.texts} must be 2 with both_orders")

    @classmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        scores, texts = [e.label for e in examples], len(examples[0].segments)
        mean = sum(scores) / len(scores)
        deviation = math.sqrt(sum((s - mean) ** 2 for s in scores) / len(scores))
        return cls(
            texts=texts,
            mean=mean,
            deviation=deviation or 1.0,
            both_orders=values["both_orders"] and values["whole"] and texts == 2,
            max_length=values["max_length"],
        )

    @classmethod
    def of_checkpoint(cls, labels: Sequence[str], positions: int) -> Self:
        return cls(texts=2, max_length=min(512, positions))

    def rescaled(self) -> Self:
        return dataclasses.replace(self, mean=0.0, deviation=1.0)

    @property
    def sequences(self) -> int:
        return 2 if self.both_orders else 1

    @property
    def takes(self) -> str:
        return "two texts"

    def some_label(self, example: Any) -> Any:
        return dataclasses.replace(example, label=self.mean)

    def encode(self, reader: Any, inputs: Inputs, whole: bool) -> Encoded:
        if not self.both_orders:
            return super().encode(reader, inputs, whole)
        segments, _, words = reader.read([inputs[name] for name in self._names])
        ways = (packed(reader, order, self.max_length) for order in (segments, segments[::-1]))
        return {**tf.nest.map_structure(lambda *way: tf.stack(way, 1), *ways), "words": words}

    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        scores = np.array(self.golds(examples))
        return {}, {"labels": ((scores - self.mean) / self.deviation).astype(np.float32)}

    def decoded(self, outputs: Outputs) -> Tensors:
        """Return the `score` `[B]` in the units of the training data."""
        return {"score": tf.convert_to_tensor(outputs["score"]) * self.deviation + self.mean}

    def shown(self, example: Any, prediction: Prediction) -> str:
        return f"{prediction['score']:.3f}  {' | '.join(example.segments)}"

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return pearson, spearman and mse."""
        return regression(self.golds(examples), [p["score"] for p in predictions])

    def perfect(self, example: Any) -> Prediction:
        return {"score": example.label}

    def distinct_answers(self, predictions: Sequence[Prediction]) -> set[str]:
        """Return the scores in steps of a tenth of the deviation from the first."""
        scores, step = [float(p["score"]) for p in predictions], 0.1 * self.deviation
        return {f"{scores[0] + step * round((s - scores[0]) / step):.4g}" for s in scores}

    def baselines(self, golds: Sequence[Any]) -> dict[str, Baseline]:
        mean = sum(map(float, golds)) / len(golds)
        error = sum((float(gold) - mean) ** 2 for gold in golds) / len(golds)
        return {"mse": Baseline(error, f"always the mean {mean:.4g}")}

    def soft_outputs(self, encoded: EncodedExamples, outputs: Outputs) -> Arrays:
        """Return scores `[E]` as they are in the data."""
        scores = outputs["score"] * np.float32(self.deviation) + np.float32(self.mean)
        return {"soft_scores": scores}

    def soft_columns(self, encoded: EncodedExamples, soft: Arrays, labelled: int) -> Targets:
        scores = ((soft["soft_scores"] - self.mean) / self.deviation).astype(np.float32)
        return {}, {**soft_weights(encoded, labelled), "soft_scores": scores}

    worst_first = "the difference is largest"
    error_columns = ("gold", "predicted", "difference", "text")

    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        return report.scatter(*([row[name] for row in rows] for name in ("gold", "score")))

    def badness(self, row: report.Row) -> float:
        return abs(row["score"] - row["gold"])

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        return [
            [(f"{row['gold']:.2f}", "right")],
            [(f"{row['score']:.2f}", "wrong")],
            [(f"{row['score'] - row['gold']:+.2f}", None)],
            self.texts_cell(row),
        ]


def regression(scores: Iterable[float], predicted: Iterable[float]) -> Measures:
    """Return Pearson and Spearman correlation and the mean squared error.

    A correlation is 0 where all predictions are equal; where all scores are, there is none.
    """
    scores = np.asarray(list(scores), np.float64)
    predicted = np.asarray(list(predicted), np.float64)
    error = {"mse": float(np.mean((scores - predicted) ** 2))}
    if not np.ptp(scores):
        return error
    if not np.ptp(predicted):
        return {"pearson": 0.0, "spearman": 0.0, **error}
    found = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}
    return {**{name: float(f(scores, predicted)[0]) for name, f in found.items()}, **error}
