"""A fine-tuned model with its encoding and decoding, from examples to predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.batches import PackedTaskBatches, TaskBatches, bucket_lengths
from tfnlp.hub.modules.frozen_features import (
    ElmoFeatures,
    EncoderFeatures,
    WordRows,
    sequence_table,
)
from tfnlp.models.task_heads import crf_of
from tfnlp.tasks.sequences import EncodedExamples, encode_examples
from tfnlp.tasks.task import HeadTask, Prediction
from tfnlp.text import WordIndex
from tfnlp.training.prediction import is_compiled, predict, predictor


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
        task: what it was fine-tuned on.
        reader: packs texts for the backbone, from `tfnlp.text.task_readers`.
        model: from `tfnlp.models.bert_task`, `gpt_task` or `feature_task`.
        features: `EncoderFeatures` or `ElmoFeatures` for a `feature_task`, else None.
        index: a `tfnlp.text.WordIndex` if the model has word embeddings of its own, else None.
        packed: a model of packed rows with the same weights, to train; or None.
    """

    def __init__(
        self,
        task: HeadTask,
        reader: Any,
        model: keras.Model,
        features: EncoderFeatures | ElmoFeatures | None = None,
        index: WordIndex | None = None,
        packed: keras.Model | None = None,
    ) -> None:
        self.task, self.reader, self.model = task, reader, model
        self.features, self.index, self.packed = features, index, packed
        self._predictor = predictor(model)
        self.crf = crf_of(model)

    @property
    def reads_sequences(self) -> bool:
        """Whether the model's inputs are `[B, C, T]` even for one sequence per example."""
        return len(self.model.input["input_mask"].shape) == 3

    def prepare(self, parts: Sequence[Sequence], cache: str | None = None) -> list[Prepared]:
        """Encode lists of examples; texts that they share are encoded once.

        Features of a frozen backbone are kept in the folder `cache`; None: in memory.
        """
        words = WordRows() if isinstance(self.features, ElmoFeatures) else None
        whole = self.features is None
        encoded = [encode_examples(self.reader, self.task, x, words, whole) for x in parts]
        if whole:
            return [Prepared(x) for x in encoded]
        if words is None:
            found = [(x, *sequence_table(x, self.features, cache)) for x in encoded]
            return [Prepared(x, rows, table=table) for x, table, rows in found]
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
        multiple = self.task.window or (1 if examples is None and not few else 8)
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
        return PackedTaskBatches(tokens, fixed, length=self.task.max_length, **options)

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
            positions = encoded.null_positions.reshape(-1, self.task.sequences)
            if "extract_positions" in wanted:
                fixed["extract_positions"] = positions
            tokens = {name: [np.atleast_2d(x) for x in column] for name, column in tokens.items()}
        if examples is not None:
            more_tokens, more_fixed = self.task.targets(encoded, examples)
            tokens.update(more_tokens, **prepared.more[0])
            fixed.update(more_fixed, **prepared.more[1])
        return tokens, fixed

    def predict(
        self,
        examples: Sequence,
        batch_size: int = 32,
        prepared: Prepared | None = None,
        batches: TaskBatches | None = None,
    ) -> list[Prediction]:
        """Return the predictions for examples, a list of dicts, as `tfnlp.load(run).predict` does.

        Of "tag" and "roles" also `probabilities` of the chosen tags, with a CRF their share among
        all sequences; of "answer" `null_score`, `answers` and `scores`, see
        `tfnlp.tasks.answer.answers`.

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
        return self.task.predictions(outputs, prepared.encoded, examples, self.crf)

    def vectors(self, examples: Sequence) -> np.ndarray | None:
        """Return the vectors `[N, F]` that the task's last layer reads of N examples.

        None of a task that has none of whole examples, and of frozen features.
        """
        layer = next((x for x in self.model.layers if x.name == "classifier"), None)
        if self.features is not None or layer is None or len(layer.input.shape) != 2:
            return None
        (prepared,) = self.prepare([examples])
        model = keras.Model(self.model.input, {"vector": layer.input})
        return predict(model, self.batches(prepared, 32), ["vector"])["vector"]

    def outputs(self, batches: TaskBatches) -> dict[str, Any]:
        """Return the outputs of the model, see `tfnlp.training.predict`."""
        return self._predictor(batches)
