"""The part of a document that answers a question (SQuAD)."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence, Set
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.questions import Question, QuestionRows
from tfnlp.layers import CRF
from tfnlp.settings.tasks import AnswerSettings
from tfnlp.tasks import report, squad
from tfnlp.tasks.baselines import Baseline
from tfnlp.tasks.playground import Field, Playground
from tfnlp.tasks.sequences import (
    Arrays,
    Encoded,
    EncodedExamples,
    Targets,
    read_in_places,
    soft_weights,
    strings,
    windows_of,
)
from tfnlp.tasks.spans import answers, best_spans, span_candidates
from tfnlp.tasks.task import HeadTask, Inputs, Measures, Outputs, Prediction, Tensors

_ENDS = ("start", "end")
QUESTION_WORDS = ("what", "who", "whom", "whose", "which", "when", "where", "why", "how")


class AnswerPlayground(Playground):
    """Questions about a text on a page."""

    title = "Answer"
    button = "Find the answer"
    help = "The answer to a question, marked in the text; none if the text has none."
    takes = ({"question", "context"},)
    gives = {"answer", "score", "start", "end"}  # and others
    fields = (
        Field("question", "Question", "line", "Where did Ada Lovelace live?"),
        Field("context", "Text", "text", "Ada Lovelace was a mathematician. She lived in London."),
    )

    @classmethod
    def fits(cls, inputs: Set[str], outputs: Set[str]) -> bool:
        return inputs in cls.takes and outputs >= cls.gives

    def shown(self, row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer with its place in characters; the module counts bytes."""
        places: dict[str, int | None] = {"start": None, "end": None}
        if found["answer"]:
            text = row["context"].encode()
            places = {name: len(text[: found[name]].decode("utf-8", "ignore")) for name in places}
        others = zip(found.get("answers", []), found.get("scores", []), strict=True)
        return {
            "answer": found["answer"],
            "score": found["score"],
            "null_score": found.get("null_score"),
            **places,
            "answers": [{"text": text, "score": score} for text, score in others if text][:5],
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer(HeadTask):
    """The part of a document that answers a question (Devlin et al. 2019, sections 4.2 and 4.3).

    Args:
        stride: pieces of the document from one window to the next.
        max_question: longest question in pieces; the rest is cut.
        max_answer: longest answer in pieces.
        unanswerable: questions may have no answer (SQuAD 2.0).
        threshold: a question has no answer if `null score - score of the best answer` is larger.
    """

    name = "answer"
    Settings = AnswerSettings
    form = QuestionRows()
    playground = AnswerPlayground
    output = "span"
    does = "find the answer to a question in a document"
    pipeline = "question-answering"
    pairs = True
    of_windows = True
    _why = ", max_question + 4"

    stride: int = 64
    max_question: int = 64
    max_answer: int = 30
    unanswerable: bool = False
    threshold: float = 0.0

    @property
    def least_length(self) -> int:
        return self.max_question + 4

    def check(self) -> None:
        for name in ("stride", "max_question", "max_answer"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    @classmethod
    def learnt_from(cls, examples: Sequence[Any], settings: Any, **values: Any) -> Self:
        return cls(
            stride=settings.stride,
            max_question=settings.max_question,
            max_answer=settings.max_answer,
            unanswerable=not all(e.answers for e in examples),
            max_length=values["max_length"],
        )

    @classmethod
    def of_checkpoint(cls, labels: Sequence[str], positions: int) -> Self:
        length = min(384, positions)
        return cls(max_length=length, stride=128, max_question=min(64, length // 2))

    count_of_texts = 2
    takes = "a question and a document"

    def example_of(self, texts: Sequence[str], number: int) -> Question:
        return Question(str(number), texts[0], texts[1], ())

    def some_label(self, example: Any) -> Any:
        return dataclasses.replace(example, answers=())

    @classmethod
    def texts_of(cls, example: Any) -> list[str]:
        return [example.question, example.context]

    @property
    def limit(self) -> str:
        return f"max_question {self.max_question}"

    def inputs_of(self, examples: Sequence[Any], first: int = 0) -> dict[str, Any]:
        names = ("question", "context")
        return {name: tf.constant([getattr(e, name) for e in examples]) for name in names}

    @property
    def signatures(self) -> dict[str, dict[str, tf.TensorSpec]]:
        return {"serving_default": {name: strings(name) for name in ("question", "context")}}

    def encode(self, reader: Any, inputs: Inputs, whole: bool) -> Encoded:
        """Encode questions and contexts `[B]` in windows, see `pack_windows`.

        The result also has `starts`, `ends` and `lengths`, see `read_in_places`.
        """
        # A piece of the text must fit beside it, with the special tokens of this encoder.
        longest = min(self.max_question, self.max_length - reader.special_tokens(2) - 1)
        (first,), pieces, places = read_in_places(reader, inputs["context"], inputs["question"])
        found = windows_of(reader, pieces, first[:, :longest], self.max_length, self.stride)
        return {**found, **places, "is_cut": tf.cast(first.row_lengths() > longest, tf.int32)}

    def targets(self, encoded: EncodedExamples, examples: Sequence[Any]) -> Targets:
        """Return the positions of the first answer of each question.

        In a window without the whole answer they are the null position (`run_squad.py`).
        """
        starts, ends = encoded.null_positions.copy(), encoded.null_positions.copy()
        gold = [_answer_words(encoded, number, e) for number, e in enumerate(examples)]
        columns = (encoded.row, encoded.windows["token_word"])
        for window, (row, words) in enumerate(zip(*columns, strict=True)):
            if gold[row] is None:
                continue
            first, last = (np.flatnonzero(words == word) for word in gold[row])
            if len(first) and len(last):
                starts[window], ends[window] = first[0], last[-1]
        return {}, {"start_positions": starts, "end_positions": ends}

    def decode(
        self, outputs: Outputs, encoded: Encoded, inputs: Inputs, crf: CRF | None
    ) -> Tensors:
        logits = (outputs[f"{end}_logits"] for end in _ENDS)
        candidates = span_candidates(*logits, encoded, self.max_answer)
        contexts, places = inputs["context"], (encoded["starts"], encoded["ends"])
        spans = best_spans(candidates, encoded["window_row"], tf.size(contexts))
        return answers(spans, contexts, *places, self.unanswerable, self.threshold)

    at_once = 64

    def cut_to(self, example: Any, row: Prediction) -> Prediction:
        return {n: row[n] for n in ("answer", "score", "null_score", "answers", "scores")}

    def shown(self, example: Any, prediction: Prediction) -> str:
        answer = prediction["answer"] or "(no answer)"
        return f"{answer}  ({prediction['score']:.3f})"

    @property
    def main_measure(self) -> str:
        return "best_f1" if self.unanswerable else "f1"

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return exact_match and f1 in percent, as in the official scripts of SQuAD.

        With unanswerable questions also what `tfnlp.tasks.squad.answers` adds.
        """
        golds = {e.id: [text for text, _ in e.answers] for e in examples}
        if not self.unanswerable:
            found = {e.id: p["answer"] for e, p in zip(examples, predictions, strict=True)}
            return squad.answers(golds, found)
        # The best threshold is found from the answers without a threshold.
        best = {e.id: p["answers"][0] for e, p in zip(examples, predictions, strict=True)}
        odds = {e.id: p["null_score"] for e, p in zip(examples, predictions, strict=True)}
        return squad.answers(golds, best, odds, self.threshold)

    def perfect(self, example: Any) -> Prediction:
        text = example.answers[0][0] if example.answers else ""
        return {"answer": text, "answers": [text], "null_score": 0.0}

    def distinct_answers(self, predictions: Sequence[Prediction]) -> set[str]:
        """Return the best answers, whatever the threshold says of them."""
        return {prediction["answers"][0] for prediction in predictions}

    def baselines(self, golds: Sequence[Any]) -> dict[str, Baseline]:
        share = 100.0 * sum(not found for found in golds) / len(golds)
        best = ("best_exact", "best_f1") if self.unanswerable else ()
        names = ("exact_match", "f1", *best) if share else ()
        return dict.fromkeys(names, Baseline(share, "never an answer"))

    def settled(
        self, examples: Sequence[Any], predictions: list[Prediction], measures: Measures
    ) -> tuple[Self, dict[str, Any]]:
        if not self.unanswerable:
            return self, {}
        odds = [p["null_score"] for p in predictions]
        threshold = squad.off_the_edge(measures["best_f1_thresh"], odds)
        return dataclasses.replace(self, threshold=threshold), {"threshold": threshold}

    def with_results(self, results: Mapping[str, Any]) -> Self:
        if "threshold" not in results:
            return self
        return dataclasses.replace(self, threshold=results["threshold"])

    @property
    def example_settings(self) -> dict[str, Any]:
        threshold = self.threshold if self.unanswerable else None
        return {"longest": self.max_answer, "threshold": threshold}

    def soft_outputs(self, encoded: EncodedExamples, outputs: Outputs) -> Arrays:
        """Return logits `[N]` of all positions of all windows."""
        found = {}
        for end in _ENDS:
            rows = zip(outputs[f"{end}_logits"], encoded.sizes, strict=True)
            found[f"soft_{end}_logits"] = np.concatenate([row[:size] for row, size in rows])
        return found

    def soft_columns(self, encoded: EncodedExamples, soft: Arrays, labelled: int) -> Targets:
        ends = np.cumsum(encoded.sizes)[:-1]
        columns = {name: np.split(values, ends) for name, values in soft.items()}
        return columns, soft_weights(encoded, labelled)

    def given(self, example: Any) -> dict[str, Any]:
        return {"id": example.id, "question": example.question, "context": example.context}

    def gold_of(self, example: Any) -> tuple[str, ...]:
        return tuple(text for text, _ in example.answers)

    def report_row(self, example: Any, prediction: Prediction) -> dict[str, Any]:
        golds, found = self.gold_of(example), prediction["answer"]
        exact, f1 = squad.question_scores(golds, found, self.unanswerable or not golds)
        return {**self.row(example, prediction), "exact_match": exact, "f1": f1}

    worst_first = "no word is right and the score is highest"
    error_columns = ("question", "gold", "predicted", "score", "context")

    def chart(self, rows: Sequence[report.Row]) -> report.Figure:
        # The gold answer of a question is the first, as annotators differ in length.
        gold = [row["gold"][0] if row["gold"] else "" for row in rows]
        return report.lengths(gold, [row["answer"] for row in rows])

    def tables(self, rows: Sequence[report.Row]) -> list[report.Table]:
        groups = collections.defaultdict(list)
        for row in rows:
            groups[question_word(row["question"])].append(row)
        by_word = [
            [word, str(len(group)), *(f"{_percent(group, m):.2f}" for m in ("exact_match", "f1"))]
            for word, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        ]
        empty = [
            sum(not row["gold"] for row in rows),
            sum(not row["answer"] for row in rows),
            sum(not row["gold"] and not row["answer"] for row in rows),
        ]
        none = ["in the data", "predicted", "of them rightly"]
        return [
            report.Table("By question word", ["word", "questions", "EM", "F1"], by_word),
            report.Table("Questions without an answer", none, [list(map(str, empty))]),
        ]

    def is_wrong(self, row: report.Row) -> bool:
        return row["f1"] == 0.0

    def badness(self, row: report.Row) -> float:
        return row["score"]

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        golds, guess = list(dict.fromkeys(row["gold"])) or ["(no answer)"], row["answer"]
        return [
            [(report.short(row["question"]), None)],
            [("\n".join(golds), "right")],
            [(guess or "(no answer)", "wrong")],
            [(f"{row['score']:.2f}", None)],
            report.marked(row["context"], row["gold"], guess),
        ]


def _percent(rows: Sequence[report.Row], measure: str) -> float:
    return 100 * sum(row[measure] for row in rows) / len(rows)


def question_word(question: str) -> str:
    """Return the first question word of a question in lower case, or "other"."""
    words = (word.strip("\"'“”‘’¿(,.?!:;-") for word in question.lower().split())
    words = (word.removesuffix("'s").removesuffix("’s") for word in words)
    return next((word for word in words if word in QUESTION_WORDS), "other")


def _answer_words(encoded: EncodedExamples, number: int, example: Any) -> tuple[int, int] | None:
    """Return the first and the last word of the first answer, or None."""
    if not example.answers:
        return None
    text, start = example.answers[0]
    start = len(example.context[:start].encode())
    end = start + len(text.encode())
    first, last = encoded.splits[number : number + 2]
    begin = first + np.searchsorted(encoded.ends[first:last], start, "right")
    finish = first + np.searchsorted(encoded.starts[first:last], end, "left") - 1
    return (begin, finish) if first <= begin <= finish < last else None
