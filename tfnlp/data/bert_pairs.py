"""BERT's pretraining batches: masked sentence pairs, half of them torn apart.

Devlin et al. 2018, section 3.1 and appendix A.2; the walk through the documents follows the
reference `create_pretraining_data.py` (`create_instances_from_document`). Two things differ. There,
pairs and masks are written to disk, ten times over; here pairs are drawn afresh every epoch and
masks every step. There, a lone sentence always gets a random partner, so that more than half of the
pairs are random; here the label is a fair coin and a lone sentence is joined by its neighbour.

A pair is stored as two ranges of the flat token array, so a plan of an epoch is a small table, and
putting batches together is one gather within the TensorFlow graph.
"""

import threading
import warnings
from bisect import bisect_left

import numpy as np
import tensorflow as tf

from tfnlp.data.tokens import TokenizedCorpus
from tfnlp.text.masking import mask_tokens

_DRAWS = 4096  # pairs for which random numbers are drawn at once
_SPECIAL = ("pad", "unk", "cls", "sep", "mask")  # never a random replacement
_CACHED_PLANS = 2  # the epoch that ends and the one that begins


class BertPairs:
    """Batches of packed pairs `[CLS] A [SEP] B [SEP]`, a pure function of (corpus, seed, step).

    Step n belongs to epoch `n // steps_per_epoch`; nothing depends on which batches were asked for
    before. A batch is a dict with B = batch_size, T = seq_length, P = max_predictions:

        input_word_ids       int32   [B, T]  15 % masked as in the paper, padded
        input_mask           int32   [B, T]  1 for tokens, 0 for padding
        input_type_ids       int32   [B, T]  1 for B and its [SEP], else 0
        masked_lm_positions  int32   [B, P]  0 where unused
        masked_lm_ids        int32   [B, P]  the tokens that stood there
        masked_lm_weights    float32 [B, P]  1 for used places, else 0
        next_sentence_labels int32   [B]     0: B follows A; 1: B is random (Google's convention)

    Args:
      corpus: what to make pairs of.
      tokenizer: the one that made the corpus; gives `pad_id`, `unk_id`, `cls_id`, `sep_id`,
        `mask_id`, `vocab_size` and, for `whole_word`, `is_continuation`.
      batch_size: B, over all devices.
      seq_length: T, 8 or more.
      max_predictions: P, at most T.
      seed: int in [0, 2^31).
      mask_rate: fraction of the tokens to predict.
      short_seq_prob: fraction of the pairs with a random, shorter target length, so that
        pretraining also sees what fine-tuning will bring.
      whole_word: mask all pieces of a word or none.

    Raises:
      ValueError: an argument out of its range, or a corpus with ids the tokenizer does not have.
    """

    def __init__(
        self,
        corpus: TokenizedCorpus,
        tokenizer,
        *,
        batch_size: int,
        seq_length: int = 128,
        max_predictions: int = 20,
        seed: int = 0,
        mask_rate: float = 0.15,
        short_seq_prob: float = 0.1,
        whole_word: bool = False,
    ):
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more; got {batch_size}")
        if seq_length < 8:
            raise ValueError(
                f"seq_length must be 8 or more, to hold two sentences; got {seq_length}"
            )
        if not 1 <= max_predictions <= seq_length:
            raise ValueError(
                f"max_predictions must lie in [1, seq_length={seq_length}]; got {max_predictions}"
            )
        if not 0 <= seed < 2**31:
            raise ValueError(f"seed must lie in [0, 2^31); got {seed}")
        if not 0 < mask_rate <= 1:
            raise ValueError(f"mask_rate must lie in (0, 1]; got {mask_rate}")
        if not 0 <= short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob must lie in [0, 1]; got {short_seq_prob}")
        if corpus.num_sentences < 2:
            raise ValueError(f"corpus must hold 2 sentences or more; got {corpus.num_sentences}")
        if corpus.tokens.max() >= tokenizer.vocab_size:
            raise ValueError(
                f"corpus holds the id {corpus.tokens.max()}, but the tokenizer has only "
                f"{tokenizer.vocab_size} ids; tokenize the corpus with this tokenizer"
            )
        if corpus.num_documents == 1:
            warnings.warn(
                "the corpus is one document, so random second sentences come from distant places "
                "of it; separate documents by blank lines for BERT's objective",
                stacklevel=2,
            )
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.seq_length = seq_length
        self.max_predictions = max_predictions
        self.seed = seed
        self.mask_rate = mask_rate
        self.short_seq_prob = short_seq_prob
        self.whole_word = whole_word
        self._lock = threading.Lock()  # tf.data asks from several threads
        with tf.device("CPU:0"):  # where tf.data runs
            self._tokens = tf.constant(corpus.tokens)
        rows_spec = tf.TensorSpec([batch_size, 6], tf.int64)
        self._packed = tf.function(self._pack, [rows_spec, tf.TensorSpec([], tf.int64)])
        self._plans = {0: self._draw(0)}
        self.num_examples = len(self._plans[0])

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in an epoch; at least 1, for which a tiny corpus is gone round."""
        return max(1, self.num_examples // self.batch_size)

    def plan(self, epoch: int) -> np.ndarray:
        """The pairs of an epoch in their order, drawn with (seed, epoch).

        Every epoch has `num_examples` pairs: where the walk gives more the rest is left out, where
        it gives fewer the first ones come again. The last two plans are kept.

        Returns:
          int64 [num_examples, 6], rows (a_start, a_end, b_start, b_end, is_random, target):
          A and B as ranges of `corpus.tokens`, cut to fit; whether B is random (1) or follows A
          (0); and the number of tokens that was aimed at.
        """
        with self._lock:
            if epoch not in self._plans:
                rows = np.resize(self._draw(epoch), [self.num_examples, 6])
                if len(self._plans) == _CACHED_PLANS:
                    del self._plans[next(iter(self._plans))]
                self._plans[epoch] = rows
            return self._plans[epoch]

    def batch(self, step: int) -> dict[str, tf.Tensor]:
        """The batch of a step, see the class."""
        with tf.device("CPU:0"):
            return self._packed(self._rows(step), step)

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Endless dataset whose element n equals `batch(first_step + n)`; shapes are static."""

        def element(step):
            rows = tf.numpy_function(self._rows, [step], tf.int64, stateful=False)
            return self._packed(tf.ensure_shape(rows, [self.batch_size, 6]), step)

        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        batches = steps.map(element, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return batches.prefetch(tf.data.AUTOTUNE)

    def evaluation_batches(self, max_batches: int) -> tf.data.Dataset:
        """The first batches of epoch 0, `max_batches` or one epoch: the same set at every call."""
        if max_batches < 1:
            raise ValueError(f"max_batches must be 1 or more; got {max_batches}")
        return self.dataset().take(min(max_batches, self.steps_per_epoch))

    def _rows(self, step: int) -> np.ndarray:
        """The rows of the plan for a step, int64 [B, 6]."""
        epoch, position = divmod(int(step), self.steps_per_epoch)
        numbers = position * self.batch_size + np.arange(self.batch_size)
        return self.plan(epoch)[numbers % self.num_examples]

    def _draw(self, epoch: int) -> np.ndarray:
        """Everything that is random about the pairs of an epoch; rows as in `plan`."""
        rng = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        return rng.permutation(self._fit(self._walk(rng), rng))

    def _walk(self, rng: np.random.Generator) -> np.ndarray:
        """Goes through every document once; rows as in `plan`, in order and of any length."""
        starts = memoryview(self.corpus.sentence_starts)  # yields Python ints, without a copy
        documents = self.corpus.document_starts.tolist()
        longest = self.seq_length - 3  # [CLS], [SEP], [SEP]
        torn = len(documents) > 2 or documents[1] > 2  # is there anywhere else to go?
        rows, draws = [], []
        for number, (first, end) in enumerate(zip(documents[:-1], documents[1:], strict=True)):
            i = first
            while i < end:
                draws = draws or rng.random([_DRAWS, 6]).tolist()
                short, shorter, split, label, *where = draws.pop()
                target = longest
                if short < self.short_seq_prob:
                    target = 2 + int(shorter * (longest - 1))
                # The chunk is the sentences i to j - 1: up to the target or the document's end.
                j = bisect_left(starts, starts[i] + target, i + 1, end)
                is_random = torn and label < 0.5
                if j - i == 1 and not is_random:
                    if j < end:
                        j += 1
                    elif i > first:
                        i -= 1
                a_end = i + 1 + int(split * (j - i - 1))  # A is the sentences i to a_end - 1
                b, b_end = a_end, j
                other = None
                if is_random or j - i == 1:
                    other = _elsewhere(documents, number, i, a_end, *where)
                if other:
                    b, b_end = other
                    room = max(1, target - (starts[a_end] - starts[i]))
                    b_end = bisect_left(starts, starts[b] + room, b + 1, b_end)
                rows.append(
                    (starts[i], starts[a_end], starts[b], starts[b_end], bool(other), target)
                )
                i = a_end if other else j  # what B did not use is put back
        return np.array(rows, np.int64)

    def _fit(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Cuts the longer of A and B, token by token at either end, until the pair fits.

        Which tokens go is a coin for each, so the number cut in front is binomial; how many go
        needs no loop: the longer one shrinks to what the other leaves, but not below half.
        """
        longest = self.seq_length - 3
        lengths = rows[:, [1, 3]] - rows[:, [0, 2]]  # [N, 2] of A and B
        keep_a = np.minimum(lengths[:, 0], np.maximum(-(-longest // 2), longest - lengths[:, 1]))
        keep = np.stack([keep_a, np.minimum(lengths[:, 1], longest - keep_a)], axis=1)  # [N, 2]
        front = rng.binomial(lengths - keep, 0.5)
        rows[:, [0, 2]] += front
        rows[:, [1, 3]] = rows[:, [0, 2]] + keep
        return rows

    def _pack(self, rows: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Rows of the plan, int64 [B, 6], to the batch."""
        a_start, a_end, b_start, b_end, is_random, _ = tf.split(rows, 6, axis=1)  # [B, 1] each
        place = tf.range(self.seq_length, dtype=tf.int64)[tf.newaxis]  # [1, T]
        first_sep = 1 + a_end - a_start
        last_sep = 1 + first_sep + b_end - b_start
        in_a = (place >= 1) & (place < first_sep)  # [B, T]
        in_b = (place > first_sep) & (place < last_sep)
        is_token = in_a | in_b
        shift = tf.where(in_a, a_start - 1, b_start - first_sep - 1)
        # Where no token belongs, any valid position will do.
        position = tf.where(is_token, place + shift, 0)  # [B, T]
        tokenizer = self.tokenizer
        special = tf.where(place > last_sep, tokenizer.pad_id, tokenizer.sep_id)
        special = tf.where(place == 0, tokenizer.cls_id, special)
        ids = tf.where(is_token, tf.gather(self._tokens, position), special)
        masked = mask_tokens(
            ids,
            is_token,
            tf.stack([self.seed, tf.cast(step, tf.int32)]),
            mask_id=tokenizer.mask_id,
            vocab_size=tokenizer.vocab_size,
            random_floor=[getattr(tokenizer, f"{name}_id") for name in _SPECIAL],
            max_predictions=self.max_predictions,
            rate=self.mask_rate,
            is_continuation=tokenizer.is_continuation if self.whole_word else None,
        )
        return {
            **masked,
            "input_mask": tf.cast(place <= last_sep, tf.int32),
            "input_type_ids": tf.cast((place > first_sep) & (place <= last_sep), tf.int32),
            "next_sentence_labels": tf.cast(is_random[:, 0], tf.int32),
        }


def _elsewhere(
    documents: list[int], number: int, start: int, end: int, where: float, offset: float
) -> tuple[int, int] | None:
    """A random place away from the sentences start to end - 1 of a document.

    Returns:
      (a sentence of another document, where that document ends). If there is no other document,
      the sentence lies in the half of this one that is farthest from the given sentences, never
      among them nor right after; None if the document is too short for that.
    """
    if len(documents) > 2:
        other = int(where * (len(documents) - 2))
        other += other >= number
        first, last = documents[other], documents[other + 1]
        return first + int(offset * (last - first)), last
    total = documents[1]
    outside = total - (end - start) - 1
    if outside < 1:
        return None
    # Counted onwards from the one after next, around the end of the document.
    ahead = outside // 4 + int(offset * -(-outside // 2))
    sentence = (end + 1 + ahead) % total
    return sentence, (start if sentence < start else total)
