"""Batches of masked pairs of segments, as BERT, ALBERT and ELECTRA are pretrained on.

`tfnlp.data.pretraining.pair_sampling` draws the pairs. A pair is stored as two ranges of the flat
token array, so the plan of an epoch is a small table.
"""

import warnings
from typing import Any

import numpy as np

from tfnlp.data.corpus.arrays import GrowingArray, chunks
from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.pretraining.masked_rows import Epoch, MaskedRows
from tfnlp.data.pretraining.packed_rows import PackedRows
from tfnlp.data.pretraining.pair_sampling import LABELS, drawn_blocks, partner_end, truncate


class SentencePairs(MaskedRows):
    """Batches of packed pairs `[CLS] A [SEP] B [SEP]`, a pure function of (corpus, seed, step).

    Step n belongs to epoch `n // steps_per_epoch`. A batch is a dict with B = batch_size, T =
    seq_length, P = max_predictions:

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
        seq_length: T, 8 or more; 128 if it is not given.
        max_predictions: P, at most T; 20 if it is not given.
        seed: int in [0, 2^31); 0 if it is not given.
        mask_rate: fraction of the tokens to predict; 0.15 if it is not given.
        short_seq_prob: fraction of the pairs with a random, shorter target length, as the texts of
            fine-tuning are shorter than T.
        whole_word: mask all pieces of a word or none.
        second: the second segment: "random" (half of the pairs have a random one), "swapped" (half
            of the pairs are in the wrong order) or "following" (it always follows the first).

    Raises:
        ValueError: an argument out of its range, or a corpus with ids the tokenizer does not have.
    """

    segments = 2

    def __init__(
        self,
        corpus: TokenizedCorpus,
        tokenizer: Any,
        *,
        short_seq_prob: float = 0.1,
        second: str = "random",
        **arguments: Any,
    ) -> None:
        if second not in LABELS:
            raise ValueError(f"second must be one of {', '.join(LABELS)}; got {second!r}")
        check_corpus(corpus.num_sentences, corpus.num_documents, short_seq_prob, second)
        self.short_seq_prob, self.second, self.label = short_seq_prob, second, LABELS[second]
        super().__init__(corpus, tokenizer, **arguments)

    @property
    def random_share(self) -> float:
        if self.second != "random":
            return 0.0
        pairs = self._epoch(0).sequences
        return float(sum(part[:, 4].sum() for part in chunks(pairs)) / len(pairs))

    def plan(self, epoch: int) -> np.ndarray:
        """Return the pairs of an epoch in their order, drawn with (seed, epoch).

        Returns:
            int64 [num_examples, 6], rows (a_start, a_end, b_start, b_end, label, target): A and
            B as ranges of `corpus.tokens`, cut to fit; whether B follows A (0) or is random or
            swapped (1); and the target length in tokens.
        """
        order, pairs, rows = self._epoch(epoch)
        return pairs[np.resize(order, self.num_examples)] if rows is None else pairs

    def _draw(self, epoch: int) -> Epoch:
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
        return Epoch(np.argsort(keys.finish(), kind="stable"), plan.finish())


class PackedPairs(SentencePairs):
    """Batches of rows `[CLS] A [SEP] B [SEP] [CLS] A [SEP] B [SEP] ...`, masked.

    The pairs of an epoch are those of `SentencePairs`, whose arguments it has. A model that is
    built with `packed=True` keeps the attention of the pairs apart and counts their positions anew.
    Pairs that are near each other in the order of the epoch share a row, see `first_fit`. A batch
    has the masked tokens of `SentencePairs` and, with S = T // 5 pairs a row at most:

        sequence_ids           int32   [B, T]  the pair's number in its row from 1 on, 0 for padding
        first_positions        int32   [B, S]  where pairs begin, then zeros
        next_sentence_labels   int32   [B, S]  see `SentencePairs`; or `sentence_order_labels`
        next_sentence_weights  float32 [B, S]  1 for pairs, then zeros; or `sentence_order_weights`

    With `second="following"` there are only `sequence_ids`.
    """

    packed = True

    def _draw(self, epoch: int) -> Epoch:
        order, pairs, _ = super()._draw(epoch)
        if epoch == 0:
            self._num_pairs = len(order)  # of every epoch
        pairs = pairs[np.resize(order, self._num_pairs)]
        lengths = pairs[:, 1] - pairs[:, 0] + pairs[:, 3] - pairs[:, 2] + 3
        rows = PackedRows(lengths, self.seq_length)
        return Epoch(self._shuffled(rows.count, epoch), pairs, rows)


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
