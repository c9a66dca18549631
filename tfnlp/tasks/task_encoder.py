"""Encoding of a task's examples as model inputs, inside the TensorFlow graph.

Training, prediction and the exported model share this code.
"""

from typing import Any

import tensorflow as tf

from tfnlp.tasks.task_spec import TaskSpec
from tfnlp.text.packing import pack_windows
from tfnlp.text.task_readers import Reader
from tfnlp.text.words import words_with_offsets

Encoded = dict[str, Any]


class TaskEncoder(tf.__internal__.tracking.AutoTrackable):
    """Encoder of strings as packed sequences.

    Each method returns a dict with `inputs`, a dict of int32 `[N, T]` (with several sequences an
    example `[N, C, T]`) as the reader packs them, `null_positions` `[N]` (`[N, C]`), `is_cut`,
    int32 `[B]` (`[B, C]`), 1 for examples of which something is not read, and `words`, strings
    ragged `[S, (W)]` that `inputs["input_word_ids"]` number (ELMo), or None.

    Args:
        reader: from `tfnlp.text.task_readers`.
        spec: a `TaskSpec`.
        whole: whether the encoder itself is trained; False: a network on its frozen layers.
    """

    def __init__(self, reader: Reader, spec: TaskSpec, whole: bool = True) -> None:
        super().__init__()
        self._whole = lambda: whole
        self.reader, self._spec = reader, lambda: spec  # a function is not tracked

    def texts(self, texts: list[tf.Tensor]) -> Encoded:
        """Encode a list of one or two strings `[N]`."""
        spec = self._spec()
        segments, _, words = self.reader.read(texts)
        found = self._pack(segments)
        if spec.both_orders:
            other = self._pack(segments[::-1])
            found = tf.nest.map_structure(lambda *ways: tf.stack(ways, 1), found, other)
        return {**found, "words": words}

    def choices(self, context: tf.Tensor, choices: tf.Tensor) -> Encoded:
        """Encode strings `[N]` and `[N, C]`."""
        count = self._spec().choices
        (first, second), _, words = self.reader.read([context, tf.reshape(choices, [-1])])
        rows = tf.repeat(tf.range(first.nrows()), count)
        flat = self._pack([tf.gather(first, rows), second])  # [N*C, ...]
        found = tf.nest.map_structure(
            lambda x: tf.reshape(x, tf.concat([[-1, count], tf.shape(x)[1:]], 0)), flat
        )
        return {**found, "words": words}

    def words(self, words: tf.RaggedTensor) -> Encoded:
        """Encode strings ragged `[B, (W)]` in windows, see `pack_windows`."""
        # As if joined by spaces: one precedes every word but the first.
        places = tf.ragged.range(words.row_lengths())
        _, pieces, numbered = self.reader.read([], words, places.with_values(places.values > 0))
        is_cut = tf.zeros([words.nrows()], tf.int32)  # windows read everything
        return {**self._windows(pieces, None), "is_cut": is_cut, "words": numbered}

    def roles(self, words: tf.RaggedTensor, predicates: tf.Tensor) -> Encoded:
        """Encode strings ragged `[B, (W)]` and int `[B]`, which word is the predicate, in windows.

        An encoder that is trained reads the predicate before the words, a segment of its own (Shi &
        Lin 2019), and has the segment 1 at the predicate among the words, else 0. A network on
        frozen layers reads the words alone, and `predicate_mask`, 1 at the predicate (He et al.
        2017).
        """
        spec, rows = self._spec(), words.nrows()
        places = tf.ragged.range(words.row_lengths())
        _, pieces, numbered = self.reader.read([], words, places.with_values(places.values > 0))
        # Of a number that is none of a word the nearest: texts to serve are not checked.
        last = tf.maximum(words.row_lengths() - 1, 0)
        chosen = words.row_starts() + tf.clip_by_value(tf.cast(predicates, "int64"), 0, last)  # [B]
        first = None
        if self._whole():
            longest = spec.max_length - self.reader.special_tokens(2) - 1
            padded = tf.concat([pieces.values, [[0]]], 0)  # of a sentence without words
            first = tf.gather(padded, chosen)[:, :longest]
        found = self._windows(pieces, first)
        of_row = tf.gather(tf.cast(chosen, "int32"), found["window_row"])  # [N]
        marked = tf.cast(found["token_word"] == of_row[:, None], "int32")  # [N, T]
        name = "input_type_ids" if self._whole() else "predicate_mask"
        found["inputs"] = {**found["inputs"], name: marked}
        return {**found, "is_cut": tf.zeros([rows], tf.int32), "words": numbered}

    def questions(self, questions: tf.Tensor, contexts: tf.Tensor) -> Encoded:
        """Encode strings `[B]` and `[B]` in windows, see `pack_windows`.

        The result also has `starts` and `ends`, int64 `[W]`, the bytes in their contexts where the
        words of all contexts begin and end, and `lengths` `[B]`, the number of words of each.
        """
        spec = self._spec()
        # A piece of the text must fit beside it, with the special tokens of this encoder.
        longest = min(spec.max_question, spec.max_length - self.reader.special_tokens(2) - 1)
        words, starts, ends = words_with_offsets(contexts, self.reader.style)
        before = tf.concat([[-1], ends.values[:-1]], 0)[: tf.size(ends.values)]
        # No word precedes the first word of a text.
        places = tf.ragged.range(words.row_lengths()).values
        after_space = (places > 0) & (starts.values > before)
        (first,), pieces, numbered = self.reader.read(
            [questions], words, words.with_values(after_space)
        )
        found = self._windows(pieces, first[:, :longest])
        is_cut = tf.cast(first.row_lengths() > longest, tf.int32)
        offsets = {"starts": starts.values, "ends": ends.values, "lengths": words.row_lengths()}
        return {**found, **offsets, "is_cut": is_cut, "words": numbered}

    def _windows(self, pieces: tf.RaggedTensor, first: tf.RaggedTensor | None) -> Encoded:
        spec = self._spec()
        found = pack_windows(
            pieces,
            first,
            lambda parts: self.reader.pack(parts, spec.max_length),
            spec.max_length,
            spec.stride,
            self.reader.special_tokens(1 if first is None else 2),
            self.reader.head,
        )
        inputs = dict(found.pop("inputs"))
        del inputs["is_cut"]  # of windows, which fit
        return {**found, "null_positions": inputs.pop("null_positions"), "inputs": inputs}

    def _pack(self, segments: list[tf.RaggedTensor]) -> Encoded:
        inputs = dict(self.reader.pack(segments, self._spec().max_length))
        apart = {name: inputs.pop(name) for name in ("null_positions", "is_cut")}
        return {**apart, "inputs": inputs}
