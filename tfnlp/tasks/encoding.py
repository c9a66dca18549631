"""Encoding of a task's examples as numpy columns for `tfnlp.data.TaskBatches`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tfnlp.tasks.task_encoder import Encoded, TaskEncoder
from tfnlp.tasks.task_spec import TaskSpec

_CHUNK = 256  # examples that are encoded in one call
Columns = dict[str, list[np.ndarray]]
_WINDOW = ("token_word", "is_head", "is_best")


class WordRows(Protocol):
    """A table of words that gives each word a row, such as `tfnlp.hub`'s table of ELMo's words."""

    def add(self, words: tf.RaggedTensor) -> np.ndarray:
        """Return the rows of strings ragged `[S, (W)]`: int32 `[1 + sum W]`, the first is 0."""


@dataclass
class EncodedExamples:
    """Model inputs of examples, and which parts of the examples they are.

    Attributes:
        inputs: columns by name, for each sequence (window) an int32 array `[n]` or `[C, n]`.
        null_positions: int32 `[N]` or `[N, C]`, see `TaskEncoder`.
        row: int `[N]`, the example that a sequence belongs to.
        windows: columns `token_word`, `is_head`, `is_best` `[n]` of tasks read in windows, see
            `pack_windows`; words are numbered across all examples.
        splits: int `[E + 1]`, the words of each example.
        starts, ends: int64 `[W]`, the bytes in their contexts where words begin and end.
        cut: the number of examples of which something is not read: texts longer than
            `max_length` together, or a question longer than `max_question`.
    """

    inputs: Columns
    null_positions: np.ndarray
    row: np.ndarray
    windows: Columns = field(default_factory=dict)
    splits: np.ndarray | None = None
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    cut: int = 0

    @property
    def sizes(self) -> np.ndarray:
        """The length of each sequence, int `[N]`."""
        return np.array([x.shape[-1] for x in self.inputs["input_mask"]])


def encode_examples(
    encoder: TaskEncoder, spec: TaskSpec, examples: Sequence[Any], words: WordRows | None
) -> EncodedExamples:
    """Encode examples, from `tfnlp.data.read_task`, with `encoder`; `spec` is its.

    With `words`, those that ELMo reads, `input_word_ids` are its rows.
    """
    found = []
    for first in range(0, len(examples), _CHUNK):
        chunk = examples[first : first + _CHUNK]
        found.append(_numpy(_encoded(encoder, spec, chunk, first), first, len(chunk), words))
    inputs, windows = {}, {}
    for chunk in found:
        for name, rows in chunk["inputs"].items():
            inputs.setdefault(name, []).extend(rows)
        for name, rows in chunk["windows"].items():
            windows.setdefault(name, []).extend(rows)
    together = EncodedExamples(
        inputs,
        np.concatenate([chunk["null_positions"] for chunk in found]),
        np.concatenate([chunk["row"] for chunk in found]),
        windows,
        cut=sum(chunk["cut"] for chunk in found),
    )
    if windows:
        before = np.cumsum([0, *(int(chunk["lengths"].sum()) for chunk in found)])
        rows = 0
        for chunk, offset in zip(found, before[:-1], strict=True):
            for words_of in windows["token_word"][rows : rows + len(chunk["row"])]:
                words_of[words_of >= 0] += int(offset)
            rows += len(chunk["row"])
        lengths = np.concatenate([chunk["lengths"] for chunk in found])
        together.splits = np.concatenate([[0], np.cumsum(lengths)])
        if "starts" in found[0]:
            together.starts = np.concatenate([chunk["starts"] for chunk in found])
            together.ends = np.concatenate([chunk["ends"] for chunk in found])
    return together


def _numpy(found: Encoded, first: int, examples: int, words: WordRows | None) -> dict[str, Any]:
    """Return one call's tensors as lists of arrays without padding."""
    inputs = {name: x.numpy() for name, x in found["inputs"].items()}
    if words is not None:
        inputs["input_word_ids"] = words.add(found["words"])[inputs["input_word_ids"]]
    lengths = inputs["input_mask"].sum(-1)
    lengths = lengths.reshape(len(lengths), -1).max(1)  # [N]
    windows = {name: found[name].numpy() for name in _WINDOW if name in found}

    def cut(columns: Mapping[str, np.ndarray]) -> Columns:
        return {
            name: [x[..., :n].copy() for x, n in zip(column, lengths, strict=True)]
            for name, column in columns.items()
        }

    row = found["window_row"].numpy() if "window_row" in found else np.arange(len(lengths))
    chunk = {
        "inputs": cut(inputs),
        "null_positions": found["null_positions"].numpy(),
        "row": row + first,
        "windows": cut(windows),
        "cut": int(found["is_cut"].numpy().reshape(examples, -1).any(1).sum()),
    }
    for name in ("starts", "ends", "lengths"):
        if name in found:
            chunk[name] = found[name].numpy()
    return chunk


def _encoded(encoder: TaskEncoder, spec: TaskSpec, examples: Sequence[Any], first: int) -> Encoded:
    """Return what the encoder makes of examples, the first of which has the number `first`."""
    if spec.task == "answer":
        questions = tf.constant([e.question for e in examples])
        return encoder.questions(questions, tf.constant([e.context for e in examples]))
    if spec.output == "tag":
        words = tf.ragged.constant([list(e.words) for e in examples], dtype="string", ragged_rank=1)
        if spec.task == "roles":
            found = encoder.roles(words, tf.constant([e.predicate for e in examples], "int32"))
        else:
            found = encoder.words(words)
        return {**found, "lengths": words.row_lengths()}
    texts, choices = (1, spec.choices) if spec.task == "choose" else (spec.texts, 0)
    for number, example in enumerate(examples, first):
        if (len(example.segments), len(example.choices)) != (texts, choices):
            raise ValueError(
                f"example {number} has {len(example.segments)} texts and {len(example.choices)} "
                f"choices; expected {texts} and {choices}, as in training"
            )
    segments = [tf.constant([e.segments[i] for e in examples]) for i in range(texts)]
    if spec.task == "choose":
        return encoder.choices(segments[0], tf.constant([e.choices for e in examples]))
    return encoder.texts(segments)


def targets(
    spec: TaskSpec, encoded: EncodedExamples, examples: Sequence[Any]
) -> tuple[Columns, dict[str, np.ndarray]]:
    """Return the targets of the loss: `(tokens, fixed)`, columns as `TaskBatches` takes them.

    A tag or a label that the training data lacks gets the weight 0, or no place. In a window
    without the whole answer the target is the null position (`run_squad.py`); of several answers
    the first is the target.
    """
    if spec.output == "tag":
        return _tag_targets(spec, encoded, examples), {}
    if spec.task == "answer":
        return {}, _span_targets(encoded, examples)
    if spec.task == "similarity":
        scores = np.array([e.label for e in examples])
        return {}, {"labels": ((scores - spec.mean) / spec.deviation).astype(np.float32)}
    if spec.task == "choose":
        return {}, {"labels": np.array([e.label for e in examples], np.int32)}
    index = {label: i for i, label in enumerate(spec.labels)}
    if spec.task == "labels":
        held = [[label in e.label for label in spec.labels] for e in examples]
        return {}, {"labels": np.array(held, np.float32).reshape(len(examples), len(index))}
    return {}, {"labels": np.array([index[e.label] for e in examples], np.int32)}


def _tag_targets(spec: TaskSpec, encoded: EncodedExamples, examples: Sequence[Any]) -> Columns:
    index = {label: i for i, label in enumerate(spec.labels)}
    tags = np.array([index.get(tag, -1) for e in examples for tag in e.tags] + [-1], np.int32)
    labels, weights = [], []
    columns = (encoded.windows[name] for name in _WINDOW)
    for word, head, best in zip(*columns, strict=True):
        found = np.where(head & best, tags[word], -1)
        labels.append(np.maximum(found, 0))
        weights.append((found >= 0).astype(np.float32))
    return {"labels": labels, "weights": weights}


def _span_targets(encoded: EncodedExamples, examples: Sequence[Any]) -> dict[str, np.ndarray]:
    starts, ends = encoded.null_positions.copy(), encoded.null_positions.copy()
    gold = [_answer_words(encoded, number, e) for number, e in enumerate(examples)]
    for window, (row, words) in enumerate(
        zip(encoded.row, encoded.windows["token_word"], strict=True)
    ):
        if gold[row] is None:
            continue
        first, last = (np.flatnonzero(words == word) for word in gold[row])
        if len(first) and len(last):
            starts[window], ends[window] = first[0], last[-1]
    return {"start_positions": starts, "end_positions": ends}


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
