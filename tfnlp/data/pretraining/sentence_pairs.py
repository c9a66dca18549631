"""Batches of masked pairs of segments, as BERT, ALBERT and ELECTRA are pretrained on.

`tfnlp.data.pretraining.pair_sampling` draws the pairs. A pair is stored as two ranges of the flat
token array, so the plan of an epoch is a small table; a batch reads the tokens of its pairs alone
and packs them in the TensorFlow graph (`tfnlp.data.pretraining.packing`).
"""

import threading
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import GrowingArray, chunks
from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.packing import PairPacker
from tfnlp.data.pretraining.pair_sampling import (
    LABELS,
    drawn_blocks,
    partner_end,
    truncate,
)

_CACHED_PLANS = 2  # of the current epoch and of the next one, which tf.data prefetches


class SentencePairs:
    """Batches of packed pairs `[CLS] A [SEP] B [SEP]`, a pure function of (corpus, seed, step).

    Step n belongs to epoch `n // steps_per_epoch`. No batch depends on the batches before it. A
    batch is a dict with B = batch_size, T = seq_length, P = max_predictions:

        input_word_ids       int32   [B, T]  15 % masked as in the paper, padded
        input_mask           int32   [B, T]  1 for tokens, 0 for padding
        input_type_ids       int32   [B, T]  1 for B and its [SEP], else 0
        masked_lm_positions  int32   [B, P]  0 where unused
        masked_lm_ids        int32   [B, P]  the original tokens there
        masked_lm_weights    float32 [B, P]  1 for used positions, else 0
        next_sentence_labels int32   [B]     0: B follows A; 1: B is random (Google's convention)

    The last one is there if `second` is "random". If it is "swapped", it is `sentence_order_labels`
    (0: B follows A; 1: A follows B); if "following", there are no labels.

    Args:
        corpus: the text.
        tokenizer: that of the corpus; has `pad_id`, `unk_id`, `cls_id`, `sep_id`,
            `mask_id`, `vocab_size` and, for `whole_word`, `is_continuation`.
        batch_size: B, over all devices.
        seq_length: T, 8 or more.
        max_predictions: P, at most T.
        seed: int in [0, 2^31).
        mask_rate: fraction of the tokens to predict.
        short_seq_prob: fraction of the pairs with a random, shorter target length, as the texts of
            fine-tuning are shorter than T.
        whole_word: mask all pieces of a word or none.
        second: the second segment: "random" (half of the pairs have a random one), "swapped" (half
            of the pairs are in the wrong order) or "following" (it always follows the first).

    Raises:
        ValueError: an argument out of its range, or a corpus with ids the tokenizer does not have.
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
        if second not in LABELS:
            raise ValueError(f"second must be one of {', '.join(LABELS)}; got {second!r}")
        self._pack = PairPacker(
            tokenizer,
            second,
            batch_size=batch_size,
            seq_length=seq_length,
            max_predictions=max_predictions,
            seed=seed,
            mask_rate=mask_rate,
            whole_word=whole_word,
        )
        check_corpus(corpus.num_sentences, corpus.num_documents, short_seq_prob, second)
        check_ids(corpus, tokenizer)
        self.corpus = corpus
        self.batch_size = batch_size
        self.seq_length = seq_length
        self.seed = seed
        self.short_seq_prob = short_seq_prob
        self.second = second
        self._lock = threading.Lock()  # tf.data calls from several threads
        specs = [
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([batch_size, 6], tf.int64),
            tf.TensorSpec([], tf.int64),
        ]
        self._packed = tf.function(self._pack, specs, autograph=False)
        self._plans = {0: self._draw(0)}
        self.num_examples = len(self._plans[0][1])

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in an epoch; 1 for a corpus smaller than a batch, whose pairs repeat."""
        return max(1, self.num_examples // self.batch_size)

    @property
    def random_share(self) -> float:
        """Share of the pairs of epoch 0 with a random second segment."""
        if self.second != "random":
            return 0.0
        rows, order = self._plan(0)
        return float(sum(part[:, 4].sum() for part in chunks(rows)) / len(order))

    def plan(self, epoch: int) -> np.ndarray:
        """Return the pairs of an epoch in their order, drawn with (seed, epoch).

        Every epoch has `num_examples` pairs: if more are drawn, the rest is left out; if fewer are
        drawn, the first ones are repeated. The last two plans are kept.

        Returns:
            int64 [num_examples, 6], rows (a_start, a_end, b_start, b_end, label, target): A and
            B as ranges of `corpus.tokens`, cut to fit; whether B follows A (0) or is random or
            swapped (1); and the target length in tokens.
        """
        rows, order = self._plan(epoch)
        return rows[order]

    def _plan(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of an epoch in the order of the corpus, and their order in the epoch."""
        with self._lock:
            if epoch not in self._plans:
                rows, order = self._draw(epoch)
                order = np.resize(order, self.num_examples)
                if len(self._plans) == _CACHED_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[epoch] = rows, order
            return self._plans[epoch]

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """Return the batch of a step, see the class."""
        with tf.device("CPU:0"):  # the device of tf.data
            return self._packed(*self._read(self._rows(step)), step)

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n equals `batch(first_step + n)`.

        Shapes are static.
        """
        batch_size = self.batch_size

        @tf.autograph.experimental.do_not_convert
        def element(step: tf.Tensor) -> dict[str, tf.Tensor]:
            tokens, rows = tf.numpy_function(
                lambda step: self._read(self._rows(step)), [step], [tf.int32, tf.int64], False
            )
            tokens, rows = tf.ensure_shape(tokens, [None]), tf.ensure_shape(rows, [batch_size, 6])
            return self._packed(tokens, rows, step)

        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        batches = steps.map(element, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return batches.prefetch(tf.data.AUTOTUNE)

    def evaluation_batches(self, max_batches: int) -> tf.data.Dataset:
        """Return the first `max_batches` batches of epoch 0, or all; the same at every call."""
        if max_batches < 1:
            raise ValueError(f"max_batches must be 1 or more; got {max_batches}")
        return self.dataset().take(min(max_batches, self.steps_per_epoch))

    def _rows(self, step: int) -> np.ndarray:
        """Return the rows of the plan for a step, int64 [B, 6]."""
        epoch, position = divmod(int(step), self.steps_per_epoch)
        numbers = position * self.batch_size + np.arange(self.batch_size)
        rows, order = self._plan(epoch)
        return rows[order[numbers % self.num_examples]]

    def _read(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of pairs, int32 [N], and their rows as ranges of these tokens."""
        starts, lengths = rows[:, [0, 2]], rows[:, [1, 3]] - rows[:, [0, 2]]  # [B, 2]
        ends = np.cumsum(lengths).reshape(lengths.shape)
        begins = ends - lengths
        shift = np.repeat((starts - begins).ravel(), lengths.ravel())  # [N]
        tokens = self.corpus.tokens[np.arange(len(shift)) + shift].astype(np.int32, copy=False)
        ranges = np.stack([begins, ends], axis=2).reshape(-1, 4)  # a_start, a_end, b_start, b_end
        return tokens, np.concatenate([ranges, rows[:, 4:]], axis=1)

    def _draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the pairs of an epoch; rows as in `plan`, and their order."""
        starts = self.corpus.sentence_starts
        plan, keys = GrowingArray(np.int64), GrowingArray(np.uint64)
        for pairs in drawn_blocks(
            starts,
            self.corpus.document_starts,
            0,
            seq_length=self.seq_length,
            short_seq_prob=self.short_seq_prob,
            seed=self.seed,
            epoch=epoch,
            second=self.second,
        ):
            partners = partner_end(starts, pairs.b, pairs.b_end, pairs.space)
            b_end = np.where(pairs.is_random, partners, pairs.b_end)
            begins = np.stack([starts[pairs.a], starts[pairs.b]], axis=1)  # [N, 2] of A and B
            ends = np.stack([starts[pairs.a_end], starts[b_end]], axis=1)
            front, keep = truncate(ends - begins, pairs.coins, self.seq_length)
            begins += front
            ends = begins + keep
            rows = [begins[:, 0], ends[:, 0], begins[:, 1], ends[:, 1]]
            plan.append(np.stack([*rows, pairs.label, pairs.target], axis=1))
            keys.append(pairs.key)
        return plan.finish(), np.argsort(keys.finish(), kind="stable")


def check_ids(corpus: TokenizedCorpus, tokenizer: Any) -> None:
    """Raise a ValueError if a corpus has ids that the tokenizer does not have."""
    largest = max(int(part.max()) for part in chunks(corpus.tokens))
    if largest >= tokenizer.vocab_size:
        raise ValueError(
            f"corpus holds the id {largest}, but the tokenizer has only "
            f"{tokenizer.vocab_size} ids; tokenize the corpus with this tokenizer"
        )


def check_corpus(
    num_sentences: int, num_documents: int, short_seq_prob: float, second: str = "random"
) -> None:
    """Raise a ValueError if no pairs can be drawn; warn of a corpus of a single document."""
    if not 0 <= short_seq_prob <= 1:
        raise ValueError(f"short_seq_prob must lie in [0, 1]; got {short_seq_prob}")
    if num_sentences < 2:
        raise ValueError(f"corpus must hold 2 sentences or more; got {num_sentences}")
    if second != "random" and num_sentences == num_documents:
        raise ValueError(
            "every document of the corpus has one sentence, so that none follows another; give "
            "documents of several sentences"
        )
    if second == "random" and num_documents == 1:
        warnings.warn(
            "the corpus is one document, so random second sentences come from distant places "
            "of it; separate documents by blank lines for BERT's objective",
            stacklevel=3,
        )
