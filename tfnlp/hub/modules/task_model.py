"""A fine-tuned model with all that stands around it: from examples to predictions."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.batches import TaskBatches, bucket_lengths
from tfnlp.hub.modules.frozen_features import ElmoFeatures, WordRows, sequence_table
from tfnlp.tasks.decoding import answers, best_spans, best_tags, span_candidates, word_logits
from tfnlp.tasks.encoding import encode_examples, targets
from tfnlp.tasks.prediction import predictor
from tfnlp.tasks.task_encoder import TaskEncoder

_WINDOWS = 256  # whose spans are compared at a time


@dataclass
class Prepared:
    """Examples as the model reads them: `encoded` and, for frozen features, the `rows` of every
    sequence in `table`, and the task's own `word_ids` of these."""

    encoded: object
    rows: list | None = None
    word_ids: list | None = None
    table: np.ndarray | None = None


class TaskModel:
    """What fine-tuning makes.

    Args:
        spec: a `tfnlp.tasks.TaskSpec`.
        reader: of the backbone's texts, from `tfnlp.text.task_readers`.
        model: from `tfnlp.models.bert_task`, `gpt_task` or `feature_task`.
        features: `EncoderFeatures` or `ElmoFeatures` for a `feature_task`, else None.
        index: a `tfnlp.text.WordIndex` where the model has word embeddings of its own, else None.
    """

    def __init__(self, spec, reader, model, features=None, index=None):
        self.spec, self.reader, self.model = spec, reader, model
        self.features, self.index = features, index
        self.encoder = TaskEncoder(reader, spec)
        self._predictor = predictor(model)

    @property
    def reads_sequences(self):
        """Whether the model's inputs are `[B, C, T]` even for one sequence an example."""
        return len(self.model.input["input_mask"].shape) == 3

    # Numbers in

    def prepare(self, parts, cache=None):
        """Lists of examples as a list of `Prepared`; texts that they share are read once.

        Args:
            parts: lists of examples, such as training and dev set.
            cache: folder for the features of a frozen backbone; None: in memory.
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
        table, ids = words.table(self.features, cache), None
        if self.index is not None:
            ids = self.index.ids(tf.constant(words.words)).numpy()
        prepared = []
        for x in encoded:
            rows = x.inputs["input_word_ids"]
            word_ids = None if ids is None else [ids[row] for row in rows]
            prepared.append(Prepared(x, rows, word_ids, table))
        return prepared

    def batches(self, prepared, batch_size, examples=None, lengths=None, **options):
        """`TaskBatches` of `Prepared` examples, with targets if the `examples` are given.

        Args:
            batch_size: rows.
            lengths: what sequences are padded to; None: six lengths that fit them.
            **options: `seed`, `pad_all`.
        """
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
            tokens.update(more_tokens)
            fixed.update(more_fixed)
        return TaskBatches(
            tokens,
            fixed,
            batch_size=batch_size,
            lengths=lengths or bucket_lengths(encoded.sizes),
            table=prepared.table,
            **options,
        )

    # Words out

    def predict(self, examples, batch_size=32, prepared=None, batches=None):
        """What the model says of examples, a list of dicts.

        "classify": `label`, `probabilities` (dict by label). "similarity": `score`. "choose":
        `choice`, `probabilities` (list). "tag": `tags`, `probabilities` (of the tags chosen).
        "answer": `answer`, `score`, `null_score`, `answers`, `scores`, see
        `tfnlp.tasks.decoding.answers`.
        """
        if not examples:
            return []
        if prepared is None:
            (prepared,) = self.prepare([examples])
        if batches is None:
            batches = self.batches(prepared, batch_size)
        outputs = self._predictor(batches)
        decode = getattr(self, f"_decode_{self.spec.task}")
        return decode(outputs, prepared.encoded, examples)

    def _decode_classify(self, outputs, encoded, examples):
        labels = self.spec.labels
        return [
            {
                "label": labels[int(row.argmax())],
                "probabilities": dict(zip(labels, row.tolist(), strict=True)),
            }
            for row in tf.nn.softmax(outputs["class_logits"]).numpy()
        ]

    def _decode_similarity(self, outputs, encoded, examples):
        scores = outputs["score"] * self.spec.deviation + self.spec.mean
        return [{"score": float(score)} for score in scores]

    def _decode_choose(self, outputs, encoded, examples):
        return [
            {"choice": int(row.argmax()), "probabilities": row.tolist()}
            for row in tf.nn.softmax(outputs["choice_logits"]).numpy()
        ]

    def _decode_tag(self, outputs, encoded, examples):
        flat = np.zeros((int(encoded.splits[-1]), len(self.spec.labels)), np.float32)
        for first in range(0, len(encoded.row), _WINDOWS):
            part = slice(first, first + _WINDOWS)
            windows = {name: _padded(x[part]) for name, x in encoded.windows.items()}
            flat += word_logits(
                _padded(outputs["tag_logits"][part], windows["token_word"].shape[1]),
                windows,
                len(flat),
            ).numpy()
        found = []
        for first in range(0, len(examples), _WINDOWS):
            splits = encoded.splits[first : first + _WINDOWS + 1]
            logits = tf.RaggedTensor.from_row_splits(
                flat[splits[0] : splits[-1]], splits - splits[0]
            )
            lengths = np.diff(splits).astype(np.int32)
            tags, probabilities = best_tags(logits.to_tensor(), lengths, self.spec.labels)
            for row, values, n in zip(tags.numpy(), probabilities.numpy(), lengths, strict=True):
                names = [self.spec.labels[tag] for tag in row[:n]]
                found.append({"tags": names, "probabilities": values[:n].tolist()})
        return found

    def _decode_answer(self, outputs, encoded, examples):
        parts = []
        for first in range(0, len(encoded.row), _WINDOWS):
            part = slice(first, first + _WINDOWS)
            windows = {name: _padded(x[part]) for name, x in encoded.windows.items()}
            windows["null_positions"] = encoded.null_positions[part]
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
        spans = best_spans(candidates, encoded.row, len(examples))
        found = answers(
            spans,
            tf.constant([example.context for example in examples]),
            tf.constant(encoded.starts),
            tf.constant(encoded.ends),
            self.spec.unanswerable,
            self.spec.threshold,
        )
        found = {name: x.numpy() for name, x in found.items()}
        return [
            {
                "answer": found["answer"][i].decode(),
                "score": float(found["score"][i]),
                "null_score": float(found["null_score"][i]),
                "answers": [text.decode() for text in found["answers"][i]],
                "scores": found["scores"][i].tolist(),
            }
            for i in range(len(examples))
        ]


def _padded(rows, width=None):
    """Arrays `[n, ...]` as one `[N, T, ...]`; beyond their ends -1 words, False and 0."""
    width = width or max(len(row) for row in rows)
    first = np.asarray(rows[0])
    shape = (len(rows), width, *first.shape[1:])
    filled = np.full(shape, -1 if first.dtype == np.int32 else 0, first.dtype)
    for place, row in zip(filled, rows, strict=True):
        n = min(width, len(row))
        place[:n] = row[:n]
    return filled
