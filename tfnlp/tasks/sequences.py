"""Examples as packed sequences: inside the TensorFlow graph, and as columns of numpy arrays.

Training, prediction and the exported module share this code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import tensorflow as tf

from tfnlp.text.packing import pack_windows
from tfnlp.text.task_readers import Reader

if TYPE_CHECKING:
    from tfnlp.tasks.task import HeadTask

# What `Task.encode` returns: `inputs`, a dict of int32 `[N, T]` (with several sequences an example
# `[N, C, T]`) as the reader packs them; `null_positions` `[N]` (`[N, C]`); `is_cut`, int32 `[B]`
# (`[B, C]`), 1 for examples of which something is not read; `words`, strings ragged `[S, (W)]` that
# `inputs["input_word_ids"]` number (ELMo), or None. Of windows also what `pack_windows` returns. Of
# documents in windows, one after the other, `inputs` are `[B, T]`, and `sizes` `[B]` their lengths.
Encoded = dict[str, Any]
Columns = dict[str, list[np.ndarray]]

_CHUNK = 256  # examples that are encoded in one call
WINDOW = ("token_word", "is_head", "is_best")


def packed(reader: Reader, segments: list[tf.RaggedTensor], max_length: int) -> Encoded:
    """Pack segments, int32 ragged `[N, (n)]`, as one sequence of at most `max_length` each."""
    inputs = dict(reader.pack(segments, max_length))
    apart = {name: inputs.pop(name) for name in ("null_positions", "is_cut")}
    return {**apart, "inputs": inputs}


def windows_of(
    reader: Reader,
    pieces: tf.RaggedTensor,
    first: tf.RaggedTensor | None,
    max_length: int,
    stride: int,
) -> Encoded:
    """Pack the pieces of words, ids int32 `[B, (W), (P)]`, in windows, see `pack_windows`."""
    found = pack_windows(
        pieces,
        first,
        lambda parts: reader.pack(parts, max_length),
        max_length,
        stride,
        reader.special_tokens(1 if first is None else 2),
        reader.head,
    )
    inputs = dict(found.pop("inputs"))
    del inputs["is_cut"]  # of windows, which fit
    return {**found, "null_positions": inputs.pop("null_positions"), "inputs": inputs}


class WordRows(Protocol):
    """A table of words that gives each word a row, such as `tfnlp.hub`'s table of ELMo's words."""

    def add(self, words: tf.RaggedTensor) -> np.ndarray:
        """Return the rows of strings ragged `[S, (W)]`: int32 `[1 + sum W]`, the first is 0."""


@dataclasses.dataclass
class EncodedExamples:
    """Model inputs of examples, and which parts of the examples they are.

    Attributes:
        inputs: columns by name, for each sequence (window) an int32 array `[n]` or `[C, n]`.
        null_positions: int32 `[N]` or `[N, C]`, see `Encoded`.
        row: int `[N]`, the example that a sequence belongs to.
        windows: columns `token_word`, `is_head`, `is_best` `[n]` of tasks read in windows, see
            `pack_windows`; words are numbered across all examples.
        splits: int `[E + 1]`, the words of each example.
        starts, ends: int64 `[W]`, the bytes in their contexts where words begin and end.
        window: tokens of the windows that a sequence has one after the other; 0: it has none.
        cut: the number of examples of which something is not read: texts longer than
            `max_length` together, or a question longer than `max_question`.
    """

    inputs: Columns
    null_positions: np.ndarray
    row: np.ndarray
    windows: Columns = dataclasses.field(default_factory=dict)
    splits: np.ndarray | None = None
    starts: np.ndarray | None = None
    ends: np.ndarray | None = None
    window: int = 0
    cut: int = 0

    @property
    def sizes(self) -> np.ndarray:
        """The length of each sequence, int `[N]`."""
        return np.array([x.shape[-1] for x in self.inputs["input_mask"]])

    @property
    def chosen(self) -> list[np.ndarray]:
        """Which piece stands for a word, in the window where it has most context: bool `[n]`."""
        columns = (self.windows[name] for name in ("is_head", "is_best"))
        return [h & b for h, b in zip(*columns, strict=True)]


def encode_examples(
    reader: Reader,
    task: HeadTask,
    examples: Sequence[Any],
    words: WordRows | None = None,
    whole: bool = True,
) -> EncodedExamples:
    """Encode examples, see `Task.encode`.

    With `words`, those that ELMo reads, `input_word_ids` are its rows.
    """
    found = []
    for first in range(0, len(examples), _CHUNK):
        chunk = examples[first : first + _CHUNK]
        encoded = task.encode(reader, task.inputs_of(chunk, first), whole)
        found.append(_numpy(encoded, first, len(chunk), words))
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
        window=task.window,
        cut=sum(chunk["cut"] for chunk in found),
    )
    if windows:
        before = np.cumsum([0, *(int(chunk["lengths"].sum()) for chunk in found)])
        rows = 0
        for chunk, offset in zip(found, before[:-1], strict=True):
            for words_of in windows["token_word"][rows : rows + len(chunk["row"])]:
                words_of[words_of >= 0] += int(offset)
            rows += len(chunk["row"])
    if "lengths" in found[0]:
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
    lengths = found["sizes"].numpy() if "sizes" in found else inputs["input_mask"].sum(-1)
    lengths = lengths.reshape(len(lengths), -1).max(1)  # [N]
    windows = {name: found[name].numpy() for name in WINDOW if name in found}

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


def window_parts(encoded: EncodedExamples, count: int) -> Any:
    """Yield `(slice, padded windows)` of `count` windows at a time, with `null_positions`."""
    for first in range(0, len(encoded.row), count):
        part = slice(first, first + count)
        windows = {name: padded(x[part]) for name, x in encoded.windows.items()}
        yield part, {**windows, "null_positions": encoded.null_positions[part]}


def padded(rows: Sequence[np.ndarray], width: int | None = None) -> np.ndarray:
    """Stack arrays `[n, ...]` to one `[N, T, ...]`, padded with -1 (int32), False or 0."""
    width = width or max(len(row) for row in rows)
    first = np.asarray(rows[0])
    shape = (len(rows), width, *first.shape[1:])
    filled = np.full(shape, -1 if first.dtype == np.int32 else 0, first.dtype)
    for place, row in zip(filled, rows, strict=True):
        n = min(width, len(row))
        place[:n] = row[:n]
    return filled


def same_windows(one: EncodedExamples, other: EncodedExamples) -> bool:
    """Return whether two models read the same windows of documents, with the same pieces."""

    def equal(x: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> bool:
        return len(x) == len(y) and all(map(np.array_equal, x, y))

    words = (encoded.windows["token_word"] for encoded in (one, other))
    return equal(*words) and np.array_equal(one.null_positions, other.null_positions)
