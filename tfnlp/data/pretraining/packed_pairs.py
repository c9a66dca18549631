"""Pairs of segments kept apart in rows of several, with masks and a label for each pair."""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.masked_rows import MaskedRows
from tfnlp.data.pretraining.packed_rows import PackedRows
from tfnlp.data.pretraining.packing import Masker
from tfnlp.data.pretraining.pair_sampling import LABELS
from tfnlp.data.pretraining.sentence_pairs import SentencePairs
from tfnlp.data.pretraining.token_stream import window_keys

_SHORTEST = 5  # tokens of a pair: one of each segment, [CLS] and two [SEP]


class PackedPairs(MaskedRows):
    """Batches of rows `[CLS] A [SEP] B [SEP] [CLS] A [SEP] B [SEP] ...`, masked.

    The pairs of an epoch are those of `SentencePairs`, which says what the arguments are. A model
    that is built with `packed=True` keeps the attention of the pairs apart and counts their
    positions anew. Pairs that are near each other in the order of the epoch share a row, see
    `first_fit`. Every epoch has as many rows as the first one: if there are more, the rest is left
    out; if there are fewer, the first ones are repeated. Batches are a pure function of (corpus,
    seed, step). A batch has the masked tokens of `SentencePairs` and, with S = T // 5 pairs a row
    at most:

        sequence_ids           int32   [B, T]  the pair's number in its row from 1 on, 0 for padding
        first_positions        int32   [B, S]  where pairs begin, then zeros
        next_sentence_labels   int32   [B, S]  see `SentencePairs`; or `sentence_order_labels`
        next_sentence_weights  float32 [B, S]  1 for pairs, then zeros; or `sentence_order_weights`

    With `second="following"` there are only `sequence_ids`.

    Raises:
        ValueError: an argument out of its range, or a corpus with ids of another tokenizer.
    """

    def __init__(
        self,
        corpus: TokenizedCorpus,
        tokenizer: Any,
        *,
        batch_size: int,
        seq_length: int = 128,
        max_predictions: int = 20,
        seed: int = 0,
        mask_rate: float = 0.15,
        short_seq_prob: float = 0.1,
        whole_word: bool = False,
        second: str = "random",
    ) -> None:
        masks = {
            "batch_size": batch_size, "seq_length": seq_length, "max_predictions": max_predictions,
            "seed": seed, "mask_rate": mask_rate, "whole_word": whole_word,
        }  # fmt: skip
        self._pairs = SentencePairs(
            corpus, tokenizer, short_seq_prob=short_seq_prob, second=second, **masks
        )
        self._mask, self._label = Masker(tokenizer, **masks), LABELS[second]
        self._special = [int(tokenizer.cls_id), int(tokenizer.sep_id), int(tokenizer.pad_id)]
        self.corpus, self.seq_length = corpus, seq_length
        self._epoch = functools.lru_cache(maxsize=2)(self._packed)
        self._slots = seq_length // _SHORTEST
        specs = [tf.TensorSpec([batch_size, seq_length], tf.int32)] * 3
        specs += [tf.TensorSpec([batch_size, self._slots], tf.int32)] * 2
        rows = self._epoch(0)[1].count
        super().__init__(rows, batch_size, seed, specs, self._masked)

    @property
    def random_share(self) -> float:
        """Share of the pairs of epoch 0 with a random second segment."""
        return self._pairs.random_share

    def _packed(self, epoch: int) -> tuple[np.ndarray, PackedRows]:
        """Return the pairs of an epoch, see `SentencePairs.plan`, and how they are packed."""
        plan = self._pairs.plan(epoch)
        lengths = plan[:, 1] - plan[:, 0] + plan[:, 3] - plan[:, 2] + 3
        return plan, PackedRows(lengths, self.seq_length)

    def _draw(self, epoch: int) -> np.ndarray:
        """Return the numbers of the rows in the order of an epoch."""
        keys = window_keys(0, self._epoch(epoch)[1].count, self.seed, epoch)
        return np.resize(np.argsort(keys, kind="stable"), self.num_examples)

    def _read(self, step: int) -> tuple[np.ndarray, ...]:
        epoch, position = divmod(int(step), self.steps_per_epoch)
        places = position * self.batch_size + np.arange(self.batch_size)
        numbers = self._order(epoch)[places % self.num_examples]
        return self._values(*self._epoch(epoch), numbers)

    def _values(
        self, plan: np.ndarray, packed: PackedRows, numbers: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return ids before masks, numbers of pairs, segments; begins of pairs and labels."""
        pair, within, sequence_ids = packed.places(numbers)  # [B, T] each
        a_start, a_end, b_start, b_end, label, _ = np.moveaxis(plan[pair], -1, 0)
        first_sep = 1 + a_end - a_start
        last_sep = 1 + first_sep + b_end - b_start
        real = sequence_ids > 0
        in_a = real & (within >= 1) & (within < first_sep)
        in_b = real & (within > first_sep) & (within < last_sep)
        at = np.where(in_a, a_start + within - 1, b_start + within - first_sep - 1)
        inside, (cls_id, sep_id, pad_id) = in_a | in_b, self._special
        ids = np.where(within == 0, cls_id, sep_id)
        ids = np.where(inside, self.corpus.tokens[np.where(inside, at, 0)], ids)
        ids = np.where(real, ids, pad_id)
        row, place = np.nonzero(real & (within == 0))
        slots = np.full((2, len(numbers), self._slots), -1)  # -1: no pair
        slots[:, row, sequence_ids[row, place] - 1] = place, label[row, place]
        types = real & (within > first_sep)
        return tuple(x.astype(np.int32) for x in (ids, sequence_ids, types, *slots))

    def _masked(
        self,
        ids: tf.Tensor,
        sequence_ids: tf.Tensor,
        types: tf.Tensor,
        begins: tf.Tensor,
        labels: tf.Tensor,
        step: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Return the batch."""
        real, (cls_id, sep_id, _) = sequence_ids > 0, self._special
        is_token = real & (ids != cls_id) & (ids != sep_id)
        batch = {
            **self._mask(ids, is_token, real, step),
            "input_type_ids": types,
            "sequence_ids": sequence_ids,
        }
        if self._label is None:
            return batch
        return {
            **batch,
            "first_positions": tf.maximum(begins, 0),
            self._label: tf.maximum(labels, 0),
            self._label.replace("_labels", "_weights"): tf.cast(begins >= 0, tf.float32),
        }
