"""A fine-tuned model with its encoding and decoding, from examples to predictions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.batches import TaskBatches, bucket_lengths
from tfnlp.data.labelled.packed_batches import PackedTaskBatches
from tfnlp.hub.modules.frozen_features import (
    ElmoFeatures,
    EncoderFeatures,
    WordRows,
    sequence_table,
)
from tfnlp.hub.modules.task_graph import DECODED
from tfnlp.models.task_heads import crf_of
from tfnlp.tasks.decoding import (
    decode_answers,
    decode_tags,
    span_candidates,
    word_logits,
)
from tfnlp.tasks.encoding import EncodedExamples, encode_examples, targets
from tfnlp.tasks.task_encoder import TaskEncoder
from tfnlp.tasks.task_spec import TaskSpec
from tfnlp.text import WordIndex
from tfnlp.training.forward import is_compiled
from tfnlp.training.prediction import predictor

_WINDOWS = 256  # windows that are decoded at a time


@dataclass
class Prepared:
    """Examples as the model reads them."""

    encoded: EncodedExamples  # the packed sequences
    rows: list[np.ndarray] | None = None  # of each sequence in `table`
    word_ids: list[np.ndarray] | None = None  # of these words in the task's own embeddings
    table: np.ndarray | None = None  # frozen features
    # Columns beside the targets, `(tokens, fixed)` as `TaskBatches` takes them.
    more: tuple[dict[str, list[np.ndarray]], dict[str, np.ndarray]] = ({}, {})


class TaskModel:
    """Fine-tuned model that predicts from examples.

    Args:
        spec: a `tfnlp.tasks.TaskSpec`.
        reader: packs texts for the backbone, from `tfnlp.text.task_readers`.
        model: from `tfnlp.models.bert_task`, `gpt_task` or `feature_task`.
        features: `EncoderFeatures` or `ElmoFeatures` for a `feature_task`, else None.
        index: a `tfnlp.text.WordIndex` if the model has word embeddings of its own, else None.
        packed: a model of packed rows with the same weights, to train; or None.
    """

    def __init__(
        self,
        spec: TaskSpec,
        reader: Any,
        model: keras.Model,
        features: EncoderFeatures | ElmoFeatures | None = None,
        index: WordIndex | None = None,
        packed: keras.Model | None = None,
    ) -> None:
        self.spec, self.reader, self.model = spec, reader, model
        self.features, self.index, self.packed = features, index, packed
        self.encoder = TaskEncoder(reader, spec, whole=features is None)
        self._predictor = predictor(model)
        self._crf = crf_of(model)

    @property
    def reads_sequences(self) -> bool:
        """Whether the model's inputs are `[B, C, T]` even for one sequence per example."""
        return len(self.model.input["input_mask"].shape) == 3

    def prepare(self, parts: Sequence[Sequence], cache: str | None = None) -> list[Prepared]:
        """Encode lists of examples; texts that they share are encoded once.

        Features of a frozen backbone are kept in the folder `cache`; None: in memory.
        """
        words = WordRows() if isinstance(self.features, ElmoFeatures) else None
        encoded = [encode_examples(self.encoder, self.spec, part, words) for part in parts]
        if self.features is None:
            return [Prepared(x) for x in encoded]
        if words is None:
            found = [sequence_table(x, self.features, cache) for x in encoded]
            return [
                Prepared(x, rows, table=table)
                for x, (table, rows) in zip(encoded, found, strict=True)
            ]
        table, ids = None, None
        if "lm_layers" in self.model.input:  # not the task's own words alone
            table = words.table(self.features, cache)
        if self.index is not None:
            ids = self.index.ids(tf.constant(words.words)).numpy()
        prepared = []
        for x in encoded:
            rows = x.inputs["input_word_ids"]
            word_ids = None if ids is None else [ids[row] for row in rows]
            prepared.append(Prepared(x, rows, word_ids, table))
        return prepared

    def batches(
        self,
        prepared: Prepared,
        batch_size: int,
        examples: Sequence | None = None,
        lengths: Sequence[int] | None = None,
        **options: Any,
    ) -> TaskBatches:
        """Return `TaskBatches` of prepared examples, with targets if `examples` are given.

        Those with targets are mixed, but for features of a frozen backbone and batches by tokens.

        Args:
            prepared: from `prepare`.
            batch_size: rows; of a prediction those of the longest examples.
            examples: the same examples, with their labels.
            lengths: lengths that sequences are padded to; None: those of the sequences for a
                prediction, else multiples of eight that fit them; and at most six multiples of
                eight where programs are compiled for each, and to train on features.
            **options: `seed`, `pad_all`, `batch_tokens`.
        """
        tokens, fixed = self._columns(prepared, examples)
        by_tokens = options.get("batch_tokens") is not None
        mixed = examples is not None and self.features is None and not by_tokens
        few = is_compiled() if examples is None else not (mixed or by_tokens)
        sizes = prepared.encoded.sizes
        count = 6 if few else len(sizes)
        multiple = 1 if examples is None and not few else 8
        return TaskBatches(
            tokens,
            fixed,
            batch_size=batch_size,
            lengths=lengths or bucket_lengths(sizes, count, multiple),
            table=prepared.table,
            mixed=mixed,
            **options,
        )

    def packed_batches(
        self, prepared: Prepared, examples: Sequence, **options: Any
    ) -> PackedTaskBatches:
        """Return `PackedTaskBatches` of prepared examples, rows of `max_length`, for `self.packed`.

        Options are `batch_size`, `seed` and `examples_per_batch`.
        """
        tokens, fixed = self._columns(prepared, examples)
        return PackedTaskBatches(tokens, fixed, length=self.spec.max_length, **options)

    def _columns(
        self, prepared: Prepared, examples: Sequence | None
    ) -> tuple[dict[str, list[np.ndarray]], dict[str, np.ndarray]]:
        """Return columns of tokens and others, as `TaskBatches` takes them."""
        encoded = prepared.encoded
        inputs = dict(encoded.inputs)
        if prepared.rows is not None:
            inputs["rows"] = prepared.rows
            if prepared.word_ids is not None:
                inputs["word_ids"] = prepared.word_ids
        wanted = {"rows" if name == "lm_layers" else name for name in self.model.input}
        tokens = {name: x for name, x in inputs.items() if name in wanted}
        fixed = {}
        if self.reads_sequences:
            positions = encoded.null_positions.reshape(-1, self.spec.sequences)
            if "extract_positions" in wanted:
                fixed["extract_positions"] = positions
            tokens = {name: [np.atleast_2d(x) for x in column] for name, column in tokens.items()}
        if examples is not None:
            more_tokens, more_fixed = targets(self.spec, encoded, examples)
            tokens.update(more_tokens, **prepared.more[0])
            fixed.update(more_fixed, **prepared.more[1])
        return tokens, fixed

    def predict(
        self,
        examples: Sequence,
        batch_size: int = 32,
        prepared: Prepared | None = None,
        batches: TaskBatches | None = None,
    ) -> list[dict[str, Any]]:
        """Return the predictions for examples, a list of dicts.

        "classify": `label`, `probabilities` (dict by label). "labels": `labels` (list),
        `probabilities` (dict by label). "similarity": `score`. "choose": `choice`, `probabilities`
        (list). "tag": `tags`, `probabilities` (of the chosen tags; with a CRF their share among
        all sequences). "roles": as "tag".
        "answer": `answer`, `score`, `null_score`, `answers`, `scores`, see
        `tfnlp.tasks.decoding.answers`.

        Args:
            examples: the examples.
            batch_size: rows of a batch of the longest examples; one of shorter examples has more,
                of as many tokens.
            prepared, batches: what `prepare` and `batches` returned of them, if that is known.
        """
        if not examples:
            return []
        if prepared is None:
            (prepared,) = self.prepare([examples])
        outputs = self.outputs(batches or self.batches(prepared, batch_size))
        decode = DECODED.get(self.spec.output)
        if decode is not None:
            return self._named(_rows(decode(outputs, self.spec)))
        if self.spec.output == "span":
            return self._decode_answer(outputs, prepared.encoded, examples)
        return self._decode_tag(outputs, prepared.encoded, len(examples))

    def outputs(self, batches: TaskBatches) -> dict[str, Any]:
        """Return the outputs of the model, see `tfnlp.training.predict`."""
        return self._predictor(batches)

    def _named(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return decoded rows with the probabilities of labels as a dict by label."""
        if self.spec.labels:
            for row in rows:
                row["probabilities"] = dict(
                    zip(self.spec.labels, row["probabilities"], strict=True)
                )
        if self.spec.output == "label":
            for row in rows:
                row["labels"] = [label for label in row["labels"] if label]
        return rows

    def _decode_tag(
        self, outputs: dict, encoded: EncodedExamples, count: int
    ) -> list[dict[str, Any]]:
        logits = np.zeros((int(encoded.splits[-1]), len(self.spec.labels)), np.float32)  # [W, K]
        for part, windows in _window_parts(encoded):
            width = windows["token_word"].shape[1]
            tag_logits = _padded(outputs["tag_logits"][part], width)  # [N, T, K]
            logits += word_logits(tag_logits, windows, len(logits)).numpy()
        found = []
        for first in range(0, count, _WINDOWS):
            splits = encoded.splits[first : first + _WINDOWS + 1]
            some = logits[splits[0] : splits[-1]]
            rows = _rows(decode_tags(some, splits - splits[0], self.spec.labels, self._crf))
            for row, words in zip(rows, np.diff(splits), strict=True):
                found.append({name: values[:words] for name, values in row.items()})
        return found

    def _decode_answer(
        self, outputs: dict, encoded: EncodedExamples, examples: Sequence
    ) -> list[dict[str, Any]]:
        parts = []
        for part, windows in _window_parts(encoded):
            width = windows["token_word"].shape[1]
            logits = [_padded(outputs[f"{x}_logits"][part], width) for x in ("start", "end")]
            parts.append(span_candidates(*logits, windows, self.spec.max_answer))
        # A short window has fewer spans than the others.
        most = max(part["scores"].shape[1] for part in parts)
        candidates = {"null": tf.concat([part["null"] for part in parts], 0)}
        for name, padding in (("scores", -2e9), ("starts", -1), ("ends", -1)):
            rows = [
                tf.pad(p[name], [[0, 0], [0, most - p[name].shape[1]]], constant_values=padding)
                for p in parts
            ]
            candidates[name] = tf.concat(rows, 0)
        contexts = tf.constant([example.context for example in examples])
        words = (tf.constant(encoded.starts), tf.constant(encoded.ends))
        found = decode_answers(candidates, encoded.row, contexts, words, self.spec)
        names = ("answer", "score", "null_score", "answers", "scores")
        return _rows({name: found[name] for name in names})


def _window_parts(
    encoded: EncodedExamples,
) -> Iterator[tuple[slice, dict[str, np.ndarray]]]:
    """Yield the padded windows of some rows at a time."""
    for first in range(0, len(encoded.row), _WINDOWS):
        part = slice(first, first + _WINDOWS)
        windows = {name: _padded(x[part]) for name, x in encoded.windows.items()}
        yield part, {**windows, "null_positions": encoded.null_positions[part]}


def _rows(found: dict[str, tf.Tensor]) -> list[dict[str, Any]]:
    """Return a dict of tensors `[B, ...]` as B dicts of Python values."""
    columns = [_python(x.numpy().tolist()) for x in found.values()]
    return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]


def _python(values: Any) -> Any:
    """Return nested lists with strings in place of bytes."""
    if isinstance(values, list):
        return [_python(x) for x in values]
    return values.decode() if isinstance(values, bytes) else values


def _padded(rows: Sequence[np.ndarray], width: int | None = None) -> np.ndarray:
    """Stack arrays `[n, ...]` to one `[N, T, ...]`, padded with -1 (int32), False or 0."""
    width = width or max(len(row) for row in rows)
    first = np.asarray(rows[0])
    shape = (len(rows), width, *first.shape[1:])
    filled = np.full(shape, -1 if first.dtype == np.int32 else 0, first.dtype)
    for place, row in zip(filled, rows, strict=True):
        n = min(width, len(row))
        place[:n] = row[:n]
    return filled
