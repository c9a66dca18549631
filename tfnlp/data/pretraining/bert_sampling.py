"""Which sentences make a pair: the walk of BERT's pretraining through a corpus.

Devlin et al. 2018, section 3.1 and appendix A.2; the walk follows the reference
`create_pretraining_data.py` (`create_instances_from_document`). Two things differ. There, pairs and
masks are written to disk, ten times over; here pairs are drawn afresh every epoch and masks every
step. There, a lone sentence always gets a random partner, so that more than half of the pairs are
random; here the label is a fair coin and a lone sentence is joined by its neighbour.

All that is random about the pair that begins at sentence s of epoch e stands in eight 64-bit
numbers: those from 8 s on that Philox gives with the key (seed, e). So any part of a corpus can be
walked through alone, by whoever has it, and the pairs are those of the whole corpus; all that must
be known of the rest is how many sentences each document has.
"""

from typing import NamedTuple

import numpy as np

_WORDS = 8  # random numbers a sentence, two blocks of Philox
_BLOCK = 1 << 15  # sentences that are walked through at once, or one document


class Pairs(NamedTuple):
    """Pairs before they are cut to fit, one a row; sentences are numbered over the corpus.

    Attributes:
        place: int64, the sentence at which the walk stood.
        key: uint64, places the pair in its epoch: pairs stand in the order of (key, place).
        coins: uint64, decides where tokens are cut off, see `cut`.
        a, a_end: int64, A is the sentences a to a_end - 1.
        b, b_end: int64, B is the sentences b to b_end - 1; of a random B this is where its document
            ends, see `partner_end`.
        is_random: bool.
        target: int64, the number of tokens that was aimed at.
        space: int64, how many of them A left for B, at least 1.
    """

    place: np.ndarray
    key: np.ndarray
    coins: np.ndarray
    a: np.ndarray
    a_end: np.ndarray
    b: np.ndarray
    b_end: np.ndarray
    is_random: np.ndarray
    target: np.ndarray
    space: np.ndarray


def draw_pairs(
    starts: np.ndarray,
    documents: np.ndarray,
    first: int,
    *,
    seq_length: int,
    short_seq_prob: float,
    seed: int,
    epoch: int,
) -> Pairs:
    """The pairs of some documents of a corpus, in their order.

    Args:
        starts: int64 [n + 1], where the sentences of these documents start among their tokens.
        documents: int64 [D + 1], where the documents of the corpus start among its sentences.
        first: the number of the first of these documents, of which there are one or more.
        seq_length, short_seq_prob, seed: see `BertPairs`.
        epoch: 0 or more.
    """
    begin = int(documents[first])  # the number of the first sentence
    last = np.searchsorted(documents, begin + len(starts) - 1)
    parts, start = [], first
    while start < last:
        end = np.searchsorted(documents, documents[start] + _BLOCK, "right") - 1
        end = min(max(end, start + 1), last)
        part = starts[documents[start] - begin : documents[end] - begin + 1]
        settings = seq_length, short_seq_prob, seed, epoch
        parts.append(_draw_block(part, documents, start, end, *settings))
        start = end
    return Pairs(*map(np.concatenate, zip(*parts, strict=True)))


def _draw_block(starts, documents, first, last, seq_length, short_seq_prob, seed, epoch):
    """`walk` through the documents first to last - 1 at once.

    What the walk would do is computed for every sentence at which it might stand, and the one loop
    follows where it goes on from there.
    """
    begin, count = documents[first], len(starts) - 1
    random = np.random.Philox(key=[seed, epoch], counter=_WORDS // 4 * int(begin))
    words = random.random_raw(_WORDS * count).reshape(count, _WORDS)  # [n, 8]
    short, shorter, split, label = ((words[:, i] >> 11) * 2.0**-53 for i in range(4))
    longest = seq_length - 3  # [CLS], [SEP], [SEP]
    target = np.where(short < short_seq_prob, 2 + (shorter * (longest - 1)).astype(int), longest)

    sentence = np.arange(count)  # numbered from `begin` on
    sizes = np.diff(documents[first : last + 1])
    document = np.repeat(np.arange(first, last), sizes)
    here, end = documents[document] - begin, documents[document + 1] - begin
    # The chunk is the sentences i to j - 1: up to the target or the document's end.
    i = sentence
    j = np.searchsorted(starts, starts[:-1] + target)
    j = np.clip(j, sentence + 1, end)
    total = documents[-1]
    torn = len(documents) > 2 or total > 2  # is there anywhere else to go?
    is_random = (label < 0.5) & torn
    lone = (j - i == 1) & ~is_random
    i = i - (lone & (j == end) & (i > here))
    j = j + (lone & (j < end))
    a_end = i + 1 + (split * (j - i - 1)).astype(int)  # A is the sentences i to a_end - 1
    is_random |= j - i == 1
    if len(documents) == 2:
        is_random &= total - (a_end - i) - 1 >= 1
    # What a random B leaves over of the chunk is put back.
    follow = np.where(is_random, a_end, j).tolist()
    visited, at = [], 0
    while at < count:
        visited.append(at)
        at = follow[at]

    v = np.array(visited, np.int64)
    i, j, a_end, is_random, target = i[v], j[v], a_end[v], is_random[v], target[v]
    where, offset = ((words[v, n] >> 11) * 2.0**-53 for n in (4, 5))
    elsewhere = _random_partners(documents, document[v], begin + i, begin + a_end, where, offset)
    return Pairs(
        place=begin + v,
        key=words[v, 6],
        coins=words[v, 7],
        a=begin + i,
        a_end=begin + a_end,
        b=np.where(is_random, elsewhere[0], begin + a_end),
        b_end=np.where(is_random, elsewhere[1], begin + j),
        is_random=is_random,
        target=target,
        space=np.maximum(1, target - (starts[a_end] - starts[i])),
    )


def _random_partners(documents, number, start, end, where, offset):
    """Random places away from the sentences start to end - 1 of the documents `number`.

    Returns:
        (a sentence of another document, where that document ends). If there is no other document,
        the sentence lies in the half of this one that is farthest from the given sentences, never
        among them nor right after, if the document is long enough for that.
    """
    if len(documents) > 2:
        other = (where * (len(documents) - 2)).astype(int)
        other += other >= number
        first, last = documents[other], documents[other + 1]
        return first + (offset * (last - first)).astype(int), last
    total = documents[1]
    outside = total - (end - start) - 1
    # Counted onwards from the one after next, around the end of the document.
    ahead = outside // 4 + (offset * -(-outside // 2)).astype(int)
    sentence = (end + 1 + ahead) % total
    return sentence, np.where(sentence < start, start, total)


def partner_end(
    starts: np.ndarray, b: np.ndarray, limit: np.ndarray, space: np.ndarray
) -> np.ndarray:
    """Where a random B ends: with the sentence that fills its space, or at `limit`.

    Args:
        starts: int64 [n + 1], where sentences start among their tokens.
        b, limit: int64 [N], numbers of these sentences.
        space: int64 [N], tokens.
    """
    return np.clip(np.searchsorted(starts, starts[b] + space), b + 1, limit)


def truncate(
    lengths: np.ndarray, coins: np.ndarray, seq_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts the longer of A and B, token by token at either end, until the pair fits.

    Which tokens go is a coin for each, so the number cut in front is binomial; how many go needs
    no loop: the longer one shrinks to what the other leaves, but not below half.

    Args:
        lengths: int64 [N, 2] of A and B.
        coins: uint64 [N], from which the coins of a pair are drawn.
        seq_length: T, of which 3 are special tokens.

    Returns:
        int64 [N, 2] tokens to cut in front, int64 [N, 2] tokens to keep behind them.
    """
    longest = seq_length - 3
    keep_a = np.minimum(lengths[:, 0], np.maximum(-(-longest // 2), longest - lengths[:, 1]))
    keep = np.stack([keep_a, np.minimum(lengths[:, 1], longest - keep_a)], axis=1)  # [N, 2]
    front = np.stack([_heads(coins, n, (lengths - keep)[:, n]) for n in range(2)], axis=1)
    return front, keep


def _heads(coins: np.ndarray, stream: int, count: np.ndarray) -> np.ndarray:
    """How many of `count` tosses [N] come up heads: bits of SplitMix64, started at `coins` [N].

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
