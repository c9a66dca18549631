"""Examples as packed sequences: inside the TensorFlow graph, and as columns of numpy arrays.

Training, prediction and the exported module share this code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import tensorflow as tf

from tfnlp.text.packing import pack_windows
from tfnlp.text.task_readers import Reader
from tfnlp.text.words import words_with_offsets

if TYPE_CHECKING:
    from tfnlp.tasks.task import HeadTask

# What `Task.encode` returns: `inputs`, a dict of int32 `[N, T]` (with several sequences an example
# `[N, C, T]`) as the reader packs them; `null_positions` `[N]` (`[N, C]`); `is_cut`, int32 `[B]`
# (`[B, C]`), 1 for examples of which something is not read; `words`, strings ragged `[S, (W)]` that
# `inputs["input_word_ids"]` number (ELMo), or None. Of windows also what `pack_windows` returns. Of
# documents in windows, one after the other, `inputs` are `[B, T]`, and `sizes` `[B]` their lengths.
Encoded = dict[str, Any]
Columns = dict[str, list[np.ndarray]]
Arrays = dict[str, np.ndarray]
Targets = tuple[Columns, Arrays]  # of tokens and of examples, as `TaskBatches` takes them

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
    nothing = tf.zeros([pieces.nrows()], tf.int32)
    return {
        **found,
        "null_positions": inputs.pop("null_positions"),
        "is_cut": nothing,
        "inputs": inputs,
    }


def read_in_places(
    reader: Reader, texts: tf.Tensor, *before: tf.Tensor
) -> tuple[list[tf.RaggedTensor], tf.RaggedTensor, Encoded]:
    """Return `(segments, pieces, places)` of texts `[B]`, which are read word by word.

    `segments` are the ids of the strings `before`, each `[B]`, and `pieces` those of the words, see
    `Reader.read`. `places` has `starts` and `ends`, int64 `[W]`, the bytes in their texts where the
    words of all texts begin and end, `lengths` `[B]`, the words of each, and `words` of an ELMo.
    """
    words, starts, ends = words_with_offsets(texts, reader.style)
    ends_before = tf.concat([[-1], ends.values[:-1]], 0)[: tf.size(ends.values)]
    # No word precedes the first word of a text.
    numbers = tf.ragged.range(words.row_lengths()).values
    after_space = words.with_values((numbers > 0) & (starts.values > ends_before))
    segments, pieces, numbered = reader.read([*before], words, after_space)
    lengths = words.row_lengths()
    places = {"starts": starts.values, "ends": ends.values, "lengths": lengths, "words": numbered}
    return segments, pieces, places


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
    found, before = [], 0
    for first in range(0, len(examples), _CHUNK):
        chunk = examples[first : first + _CHUNK]
        encoded = task.encode(reader, task.inputs_of(chunk, first), whole)
        found.append(_numpy(encoded, first, len(chunk), before, words))
        before += int(found[-1].get("lengths", np.zeros(1)).sum())

    def together(name: str) -> np.ndarray | None:
        return np.concatenate([chunk[name] for chunk in found]) if name in found[0] else None

    def columns(kind: str) -> Columns:
        names = found[0][kind]
        return {name: [row for chunk in found for row in chunk[kind][name]] for name in names}

    lengths = together("lengths")
    return EncodedExamples(
        columns("inputs"),
        together("null_positions"),
        together("row"),
        columns("windows"),
        splits=None if lengths is None else np.concatenate([[0], np.cumsum(lengths)]),
        starts=together("starts"),
        ends=together("ends"),
        window=task.window,
        cut=sum(chunk["cut"] for chunk in found),
    )


def _numpy(
    found: Encoded, first: int, examples: int, before: int, words: WordRows | None
) -> dict[str, Any]:
    """Return one call's tensors as lists of arrays without padding; `before` are earlier words."""
    inputs = {name: x.numpy() for name, x in found["inputs"].items()}
    if words is not None:
        inputs["input_word_ids"] = words.add(found["words"])[inputs["input_word_ids"]]
    lengths = found["sizes"].numpy() if "sizes" in found else inputs["input_mask"].sum(-1)
    lengths = lengths.reshape(len(lengths), -1).max(1)  # [N]
    windows = {name: found[name].numpy() for name in WINDOW if name in found}
    if windows:
        word = windows["token_word"]
        windows["token_word"] = np.where(word >= 0, word + before, word)

    def cut(columns: Mapping[str, np.ndarray]) -> Columns:
        return {
            name: [x[..., :n].copy() for x, n in zip(column, lengths, strict=True)]
            for name, column in columns.items()
        }

    row = found["window_row"].numpy() if "window_row" in found else np.arange(len(lengths))
    return {
        "inputs": cut(inputs),
        "null_positions": found["null_positions"].numpy(),
        "row": row + first,
        "windows": cut(windows),
        "cut": int(found["is_cut"].numpy().reshape(examples, -1).any(1).sum()),
        **{n: found[n].numpy() for n in ("starts", "ends", "lengths") if n in found},
    }


def in_graph(
    encoded: EncodedExamples, outputs: Mapping[str, Any], count: int
) -> Iterator[tuple[slice, Encoded, Arrays]]:
    """Yield `count` examples at a time as `Task.encode` has them, and the outputs for them."""
    for first in range(0, int(encoded.row[-1]) + 1, count):
        part = slice(first, first + count)
        rows = slice(*np.searchsorted(encoded.row, (first, first + count)))
        found: Encoded = {name: padded(x[rows]) for name, x in encoded.windows.items()}
        found["window_row"] = tf.constant(encoded.row[rows] - first)
        found["null_positions"] = encoded.null_positions[rows]
        width = found["token_word"].shape[1] if encoded.windows else None
        if encoded.splits is not None:
            splits = encoded.splits[first : first + count + 1]
            found["lengths"] = tf.constant(np.diff(splits))
            if width is not None:
                word = found["token_word"]
                found["token_word"] = np.where(word >= 0, word - splits[0], word).astype(np.int32)
            if encoded.starts is not None:
                words = slice(splits[0], splits[-1])
                found["starts"] = tf.constant(encoded.starts[words])
                found["ends"] = tf.constant(encoded.ends[words])
        yield part, found, {name: padded(x[rows], width) for name, x in outputs.items()}


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


def soft_weights(encoded: EncodedExamples, labelled: int) -> dict[str, np.ndarray]:
    """Return the weights of labels and of a teacher, of examples of which the first have labels."""
    known = (encoded.row < labelled).astype(np.float32)  # [N]
    return {"weights": known, "soft_weights": np.ones_like(known)}


def rows_of(found: Mapping[str, tf.Tensor]) -> list[dict[str, Any]]:
    """Return a dict of tensors `[B, ...]` as B dicts of Python values."""
    columns = [_python(x.numpy().tolist()) for x in found.values()]
    return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]


def _python(values: Any) -> Any:
    """Return nested lists with strings in place of bytes."""
    if isinstance(values, list):
        return [_python(x) for x in values]
    return values.decode() if isinstance(values, bytes) else values


def strings(name: str, rank: int = 1) -> tf.TensorSpec:
    """Return the input of a signature that is strings."""
    return tf.TensorSpec([None] * rank, "string", name=name)
