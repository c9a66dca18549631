"""Blocks of running text with the windows of their words, and negatives for each block.

Mikolov et al. 2013 (Distributed Representations of Words and Phrases), sections 2.2 and 2.3, and
for details word2vec.c: frequent words are removed before the windows are drawn, each centre draws
its own window, and windows end at the ends of sentences.
"""

import functools

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import GrowingArray, chunks, scratch
from tfnlp.data.corpus.corpora import WordCorpus
from tfnlp.data.numbered import StackedBatches, generator

_SENTENCES = 1 << 16  # that are handled at once
_EVALUATION = 2**63 - 1  # the epoch whose random numbers the evaluation uses


class WordBlocks(StackedBatches):
    """Blocks of L centre words in running text, a pure function of (corpus, seed, step).

    Each epoch draws with (seed, epoch): word w of frequency f_w (its share of the corpus) is kept
    with probability `min(1, sqrt(t / f_w) + t / f_w)`, t = `sample`. The kept words form a ring.
    Each has a window b, uniform in 1..W, on both sides, cut at the ends of its sentence. The ring
    is read once in B = `batch_size` rows, from a random place on: step n of an epoch has the words
    n L to (n + 1) L - 1 of each row as centres, with W words on both sides. All epochs have
    `steps_per_epoch` steps, so a few words at the ends of rows are left out or read twice. A batch
    is a dict:

        input_word_ids  int32 [B, L + 2W]  the centres and the W words on both sides
        left, right     int32 [B, L]       words to the left and right of a centre that are in its
                                           window: from 0 to W
        negative_ids    int32 [B, N]       drawn from `counts^0.75` for the whole block

    Args:
        corpus: the text.
        batch_size: B, blocks per batch, over all devices.
        block: L.
        window: W.
        samples: N.
        sample: t; 0 keeps all words.
        counts: int64 [V], frequencies for removal and for negatives; None: those of the corpus.
        seed: int in [0, 2^63).
    """

    _at_once = 32

    def __init__(
        self,
        corpus: WordCorpus,
        *,
        batch_size: int = 96,
        block: int = 32,
        window: int = 5,
        samples: int = 16,
        sample: float = 1e-3,
        counts: np.ndarray | None = None,
        seed: int = 0,
    ) -> None:
        self.corpus, self.batch_size, self.block, self.window = corpus, batch_size, block, window
        self.samples, self.seed = samples, seed
        counts = corpus.counts if counts is None else counts
        self._keep = keep_probabilities(counts, sample).astype(np.float32)
        self._alias = alias_table(counts.astype(np.float64) ** 0.75)
        self._expected = float(np.dot(corpus.counts, self._keep.astype(np.float64)))
        self._plan = functools.lru_cache(maxsize=2)(self._draw)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the expected number of kept words.

        Raises:
            ValueError: there is none; such a text is enough for evaluation, but not for training.
        """
        steps = int(self._expected) // (self.batch_size * self.block)
        if not steps:
            raise ValueError(
                f"the text has {self.corpus.num_words} words of the vocabulary, of which about "
                f"{self._expected:.0f} stay when frequent ones are left out: too few for one batch "
                f"of {self.batch_size} blocks (batch_size) of {self.block} words (block); give "
                "more text or a smaller batch"
            )
        return steps

    @property
    def words_per_block(self) -> float:
        """Words of the text per block, with those that were removed."""
        return self.corpus.num_words / (self.steps_per_epoch * self.batch_size)

    def evaluation_batches(self, count: int | None = None) -> tf.data.Dataset:
        """Return the whole text once, in its order, or the first `count` batches.

        The last rows have centres without windows. All that is drawn is drawn once, with the seed.
        """
        total = -(-len(self._plan(_EVALUATION)[0]) // (self.batch_size * self.block))
        return self._evaluated(total, count)

    def _batches(self, first: int, count: int) -> dict[str, np.ndarray]:
        parts, steps = [], self.steps_per_epoch
        while count:
            epoch, number = divmod(first, steps)
            size = min(count, steps - number)
            ids, _, _, offset = self._plan(epoch)
            rows = len(ids) // self.batch_size * np.arange(self.batch_size)[:, np.newaxis]
            places = (number + np.arange(size))[:, np.newaxis, np.newaxis] * self.block + rows
            within = np.arange(-self.window, self.block + self.window)
            batch = self._gather(epoch, offset + places + within)
            parts.append({**batch, "negative_ids": self._negatives(epoch, number, size)})
            first, count = first + size, count - size
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _evaluation_batch(self, number: int) -> dict[str, np.ndarray]:
        first = number * self.batch_size * self.block
        rows = np.arange(self.batch_size)[:, np.newaxis] * self.block
        places = first + rows + np.arange(-self.window, self.block + self.window)  # [B, L + 2W]
        batch = self._gather(_EVALUATION, places)
        real = places[:, self.window : self.window + self.block] < len(self._plan(_EVALUATION)[0])
        for side in ("left", "right"):
            batch[side] *= real
        return {**batch, "negative_ids": self._negatives(_EVALUATION, number, 1)[0]}

    def _gather(self, epoch: int, places: np.ndarray) -> dict[str, np.ndarray]:
        """Return the words at places of the ring [..., L + 2W], and the windows of the centres."""
        ids, left, right, _ = self._plan(epoch)
        places = places % len(ids)
        centres = places[..., self.window : self.window + self.block]
        return {
            "input_word_ids": ids[places],
            "left": left[centres].astype(np.int32),
            "right": right[centres].astype(np.int32),
        }

    def _draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Draw the kept words of an epoch, their windows to the left and right, and the start."""
        rng = generator(self.seed, epoch)
        words, lengths = GrowingArray(np.int32), GrowingArray(np.int64)
        for first in range(0, self.corpus.num_sentences, _SENTENCES):
            starts = self.corpus.sentence_starts[first : first + _SENTENCES + 1]
            ids = self.corpus.ids[starts[0] : starts[-1]]
            kept = rng.random(len(ids), np.float32) < self._keep[ids]
            words.append(ids[kept])
            # The kept words of each sentence; sentences without kept words are removed.
            left = np.diff(np.concatenate([[0], np.cumsum(kept)])[starts - starts[0]])
            lengths.append(left[left > 0])
        ids, lengths = words.finish(), lengths.finish()
        windows = rng.integers(1, self.window + 1, len(ids), dtype=np.int16)
        offset = int(rng.integers(max(1, len(ids))))
        sides, done = scratch([2, len(ids)], np.int16), 0
        for part in chunks(lengths, _SENTENCES):
            ends = np.repeat(np.cumsum(part), part)
            behind = ends - 1 - np.arange(len(ends))
            before = np.repeat(part, part) - 1 - behind
            here = slice(done, done + len(ends))
            sides[:, here] = np.minimum(windows[here], [before, behind])
            done += len(ends)
        return ids, *sides, offset

    def _negatives(self, epoch: int, number: int, count: int) -> np.ndarray:
        """Draw int32 [count, B, N] from the numbers of Philox of these batches of the epoch."""
        size = self.batch_size * self.samples
        skip = number * size % 4  # a block of Philox is four numbers
        # Far beyond the numbers of `_draw`, which has the same key.
        counter = (1 << 64) + number * size // 4
        random = np.random.Philox(key=[self.seed, epoch], counter=counter)
        random = random.random_raw(skip + count * size)[skip:]
        threshold, other = self._alias
        # 32 bits choose a word of the table, 32 more choose between it and its alias.
        word = ((random >> np.uint64(32)) * np.uint64(len(other)) >> np.uint64(32)).astype(np.int64)
        low = (random & np.uint64(0xFFFFFFFF)).astype(np.int64)
        ids = np.where(low < threshold[word], word, other[word])
        return ids.astype(np.int32).reshape(count, self.batch_size, self.samples)


def keep_probabilities(counts: np.ndarray, sample: float) -> np.ndarray:
    """Return `min(1, sqrt(t / f_w) + t / f_w)` with `f_w = counts_w / sum(counts)`, float64 [V].

    That is the formula of word2vec.c; equation 5 of the paper has `sqrt(t / f_w)` alone. For t = 0
    all are 1.
    """
    if not sample:
        return np.ones(len(counts))
    ratio = sample * counts.sum() / np.maximum(counts, 1)
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the table of Walker's alias method, to draw numbers in proportion to `weights` [V].

    For u uniform in 0..V-1 and v in [0, 2^32), the number is u if `v < threshold[u]`, else
    `other[u]`.

    Returns:
        threshold int64 [V] up to 2^32, other int64 [V].
    """
    share = weights * (len(weights) / weights.sum())
    other = np.arange(len(weights))
    small = np.flatnonzero(share < 1).tolist()
    large = np.flatnonzero(share >= 1).tolist()
    share = share.tolist()
    while small and large:
        low, high = small.pop(), large[-1]
        other[low] = high
        share[high] -= 1 - share[low]
        if share[high] < 1:
            small.append(large.pop())
    for rest in (*small, *large):  # 1, up to rounding
        share[rest] = 1.0
    return np.rint(np.array(share) * 2**32).astype(np.int64), other
