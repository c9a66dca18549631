"""Masked pairs of segments, as BERT, ALBERT and ELECTRA are pretrained on.

Devlin et al. 2018, section 3.1 and appendix A.2; the sampling follows the reference
`create_pretraining_data.py` (`create_instances_from_document`). Two things differ. There, pairs and
masks are written to disk, ten times; here pairs are drawn anew in every epoch and masks in every
step. There, a single sentence always gets a random partner, so that more than half of the pairs are
random; here the label is a fair coin, and a single sentence is joined with its neighbour.

The second segment of a pair is drawn in one of three ways. "random": a fair coin decides whether it
follows the first one or comes from elsewhere (BERT). "swapped": it follows, and a fair coin decides
whether the two are exchanged (Lan et al. 2020, section 3.1: sentence order). "following": it
follows (ELECTRA). In the last two a document of one sentence makes no pair.

The pair that begins at sentence s in epoch e depends on eight random 64-bit numbers: those from 8 s
on of Philox with the key (seed, e). So the pairs of any part of a corpus can be drawn from that
part alone and are the same as in the whole corpus; of the rest, only the number of sentences of
each document is needed. A pair is stored as two ranges of the flat token array, so the plan of an
epoch is a small table.
"""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tfnlp.data.corpus.arrays import GrowingArray, chunks
from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.pretraining.masked_rows import Epoch, MaskedRows
from tfnlp.data.pretraining.packed_rows import PackedRows

# How the second segment is drawn: the batch's name of the labels, 1 for a random or swapped pair.
LABELS = {"random": "next_sentence_labels", "swapped": "sentence_order_labels", "following": None}

_WORDS = 8  # random numbers per sentence, two blocks of Philox
_BLOCK = 1 << 15  # sentences that are processed at once


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


class Pairs(NamedTuple):
    """Pairs before truncation, one per row, [N]; sentences are numbered over the corpus."""

    number: np.ndarray  # of the sentence from which the pair was drawn
    key: np.ndarray  # uint64, its order in the epoch: pairs are sorted by (key, number)
    coins: np.ndarray  # uint64, the random bits for `truncate`
    a: np.ndarray  # A is the sentences a to a_end - 1
    a_end: np.ndarray
    b: np.ndarray  # B is the sentences b to b_end - 1;
    b_end: np.ndarray  # of a random B it is the end of its document, see `partner_end`
    is_random: np.ndarray  # bool, whether B is random
    label: np.ndarray  # bool, whether B is random, or before A
    target: np.ndarray  # the target length in tokens
    space: np.ndarray  # how many of them A leaves for B, at least 1


def drawn_blocks(
    starts: np.ndarray,
    documents: np.ndarray,
    first: int,
    *,
    seq_length: int,
    short_seq_prob: float,
    seed: int,
    epoch: int,
    second: str = "random",
) -> Iterator[Pairs]:
    """Draw the pairs of some consecutive documents of a corpus, in their order and in blocks.

    The pair that would begin at each sentence is computed for all sentences of a block; a loop then
    follows the pairs from one to the next. `starts` [n + 1] are those of the sentences of these
    documents among their tokens, `documents` [D + 1] those of all documents among the sentences of
    the corpus, and `first` is the number of the first of these documents.
    """
    begin = at = int(documents[first])  # the number of the first sentence
    end = begin + len(starts) - 1
    longest = seq_length - 3  # [CLS], [SEP], [SEP]
    draws = second == "random"
    for start in range(begin, end, _BLOCK):
        last = min(start + _BLOCK, end)
        random = np.random.Philox(key=[seed, epoch], counter=_WORDS // 4 * start)
        words = random.random_raw(_WORDS * (last - start)).reshape(-1, _WORDS)  # [n, 8]
        short, shorter, split, label = (_uniform(words[:, i]) for i in range(4))
        drawn = 2 + (shorter * (longest - 1)).astype(int)
        target = np.where(short < short_seq_prob, drawn, longest)

        sentence, wanted = np.arange(start, last), (label < 0.5) & draws
        document = np.searchsorted(documents, sentence, "right") - 1
        i, j, is_random = _chunks(starts, begin, documents, document, sentence, target, wanted)
        a_end = i + 1 + (split * (j - i - 1)).astype(int)  # A is the sentences i to a_end - 1
        single = j - i == 1
        is_random |= single & draws
        if len(documents) == 2:
            is_random &= documents[-1] - (a_end - i) - 1 >= 1
        # With a random B, the next pair begins at the rest of the chunk.
        v, at = _visited(np.where(is_random, a_end, j), start, last, at)
        if not draws:
            v = v[~single[v]]
        i, j, a_end, is_random, target = i[v], j[v], a_end[v], is_random[v], target[v]
        where, offset = (_uniform(words[v, n]) for n in (4, 5))
        elsewhere = _random_partners(documents, document[v], i, a_end, where, offset)
        b, b_end = (np.where(is_random, x, y) for x, y in zip(elsewhere, (a_end, j), strict=True))
        swapped = (label[v] < 0.5) & (second == "swapped")
        segments = np.where(swapped, [b, b_end, i, a_end], [i, a_end, b, b_end])  # [4, N]
        yield Pairs(
            number=start + v,
            key=words[v, 6],
            coins=words[v, 7],
            a=segments[0],
            a_end=segments[1],
            b=segments[2],
            b_end=segments[3],
            is_random=is_random,
            label=is_random | swapped,
            target=target,
            space=np.maximum(1, target - (starts[a_end - begin] - starts[i - begin])),
        )


def _uniform(words: np.ndarray) -> np.ndarray:
    """Return random words as numbers in [0, 1)."""
    return (words >> 11) * 2.0**-53


def _chunks(
    starts: np.ndarray,
    begin: int,
    documents: np.ndarray,
    document: np.ndarray,
    sentence: np.ndarray,
    target: np.ndarray,
    wanted: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the first sentence of each pair, the one after its last, and whether B is random.

    They fill `target`, or end with the document. One sentence alone is joined with its neighbour,
    unless B is random.
    """
    here, end = documents[document], documents[document + 1]
    at = sentence - begin
    j = np.clip(begin + np.searchsorted(starts, starts[at] + target), sentence + 1, end)
    possible = len(documents) > 2 or documents[-1] > 2  # there is a place for a random B
    is_random = wanted & possible
    lone = (j - sentence == 1) & ~is_random
    return sentence - (lone & (j == end) & (sentence > here)), j + (lone & (j < end)), is_random


def _visited(follow: np.ndarray, first: int, last: int, at: int) -> tuple[np.ndarray, int]:
    """Return where in a block pairs begin, and the sentence that the next one begins at."""
    visited, follow = [], follow.tolist()  # a loop over Python's numbers is the faster one
    while at < last:
        visited.append(at - first)
        at = follow[at - first]
    return np.array(visited, np.int64), at


def _random_partners(
    documents: np.ndarray,
    number: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    where: np.ndarray,
    offset: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return sentences of other documents than `number`, and the ends of these documents.

    In a corpus of one document, a sentence is in the half of it that is farthest from the sentences
    start to end - 1, and neither among them nor right after them if the document is long enough.
    """
    if len(documents) > 2:
        other = (where * (len(documents) - 2)).astype(int)
        other += other >= number
        first, last = documents[other], documents[other + 1]
        return first + (offset * (last - first)).astype(int), last
    total = documents[1]
    outside = total - (end - start) - 1
    # Counted from the sentence after the next one, and on from the start of the document.
    ahead = outside // 4 + (offset * -(-outside // 2)).astype(int)
    sentence = (end + 1 + ahead) % total
    return sentence, np.where(sentence < start, start, total)


def partner_end(
    starts: np.ndarray, b: np.ndarray, limit: np.ndarray, space: np.ndarray
) -> np.ndarray:
    """Return the end of each random B, int64 [N]: the sentence that fills its space, or `limit`."""
    return np.clip(np.searchsorted(starts, starts[b] + space), b + 1, limit)


def truncate(
    lengths: np.ndarray, coins: np.ndarray, seq_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Truncate the longer of A and B, token by token at a random end, until the pair fits.

    Each token is removed from the front or the back by a fair coin, so the number removed in front
    is binomial. The number of removed tokens needs no loop: the longer one keeps what the other
    leaves, but not less than half. The `coins` [N] are seeds.

    Returns:
        int64 [N, 2] tokens of A and B to remove in front, int64 [N, 2] tokens to keep after them.
    """
    longest = seq_length - 3
    keep_a = np.minimum(lengths[:, 0], np.maximum(-(-longest // 2), longest - lengths[:, 1]))
    keep = np.stack([keep_a, np.minimum(lengths[:, 1], longest - keep_a)], axis=1)  # [N, 2]
    front = np.stack([_heads(coins, n, (lengths - keep)[:, n]) for n in range(2)], axis=1)
    return front, keep


def _heads(coins: np.ndarray, stream: int, count: np.ndarray) -> np.ndarray:
    """Return the number of heads in `count` tosses [N], bits of SplitMix64 seeded with `coins`.

    Two streams, 0 and 1, take its numbers in turn (Steele et al. 2014, "Fast splittable
    pseudorandom number generators", with the constants of its reference code).
    """
    heads = np.zeros(len(count), np.int64)
    rows, number = np.flatnonzero(count > 0), stream + 1
    while len(rows):
        left = count[rows] - 64 * ((number - 1) // 2)
        bits = coins[rows] + np.uint64(number * 0x9E3779B97F4A7C15 % 2**64)
        bits = (bits ^ (bits >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> 27)) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> 31
        bits >>= np.maximum(64 - left, 0).astype(np.uint64)
        bits = np.unpackbits(bits.view(np.uint8).reshape(-1, 8), axis=1)  # [n, 64]
        heads[rows] += bits.sum(axis=1, dtype=np.int64)
        rows, number = rows[left > 64], number + 2
    return heads
