"""Blocks of running text with the windows of their words, and negatives for each block.

Mikolov et al. 2013 (Distributed Representations of Words and Phrases), sections 2.2 and 2.3; where
the paper is silent, word2vec.c: frequent words are left out before windows are laid over the rest,
each centre draws its own window, and windows end where sentences end.
"""

import functools

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.word_corpus import WordCorpus

_BATCHES = 32  # made in one call of Python
_EVALUATION = 2**63 - 1  # the epoch that held-out text draws its numbers from


class WordBlocks:
    """Blocks of L centre words in running text, a pure function of (corpus, seed, step).

    In each epoch, drawn anew with (seed, epoch): word w of frequency f_w (its share of the corpus)
    stays with probability `min(1, sqrt(t / f_w) + t / f_w)`, t = `sample`; the words that stayed
    stand in a ring; every one of them has a window b uniform in 1..W on either side, cut at the
    ends of its sentence. The ring is gone round once in B = `batch_size` rows, from a random place
    on: step n of an epoch holds words n L to (n + 1) L - 1 of each row, as centres, with W words on
    either side. Epochs have `steps_per_epoch` steps whatever was drawn; a few words at the ends of
    rows are left out or read twice. A batch is a dict:

        input_word_ids  int32 [B, L + 2W]  the centres, with the words beside them
        left, right     int32 [B, L]       words to the left and right of a centre that are in its
                                           window: from 0 to W
        negative_ids    int32 [B, N]       drawn from `counts^0.75` for the whole block

    Args:
        corpus: what to read.
        batch_size: B, blocks in a batch, over all devices.
        block: L.
        window: W.
        samples: N.
        sample: t; 0 keeps all words.
        counts: int64 [V], by which words are left out and negatives drawn; None: the corpus' own.
        seed: int in [0, 2^63).

    Raises:
        ValueError: an argument out of its range.
    """

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
    ):
        for name, value in (
            ("batch_size", batch_size),
            ("block", block),
            ("window", window),
            ("samples", samples),
        ):
            if value < 1:
                raise ValueError(f"{name} must be 1 or more; got {value}")
        if not sample >= 0:
            raise ValueError(f"sample must be 0 or more; got {sample}")
        if not 0 <= seed < 2**63:
            raise ValueError(f"seed must lie in [0, 2^63); got {seed}")
        self.corpus, self.batch_size, self.block, self.window = corpus, batch_size, block, window
        self.samples, self.seed = samples, seed
        counts = corpus.counts if counts is None else counts
        self._keep = keep_probabilities(counts, sample).astype(np.float32)
        self._alias = alias_table(counts.astype(np.float64) ** 0.75)
        self._expected = float(np.dot(corpus.counts, self._keep.astype(np.float64)))
        self._plan = functools.lru_cache(maxsize=2)(self._draw)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the words that are expected to stay.

        Raises:
            ValueError: there is none; such a text can be evaluated on, but not trained on.
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
        """Words of the text that a block stands for, those that were left out included."""
        return self.corpus.num_words / (self.steps_per_epoch * self.batch_size)

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """The batch of a step, see the class."""
        return {name: value[0] for name, value in self._batches(int(step), 1).items()}

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Endless dataset whose element n equals `batch(first_step + n)`; shapes are static."""
        firsts = tf.data.Dataset.range(first_step, tf.int64.max, _BATCHES)
        several = self._dataset(firsts, lambda n: self._batches(int(n), _BATCHES), [_BATCHES])
        return several.unbatch().prefetch(2)

    def evaluation_batches(self, count: int | None = None) -> tf.data.Dataset:
        """The whole text once, in its order, with windows, negatives and words left out as drawn
        once with the seed; the last rows are filled up with centres without windows.

        Args:
            count: only so many batches, the first ones.

        Returns:
            A finite dataset of known cardinality, the same at every call; shapes are static.
        """
        if count is not None and count < 1:
            raise ValueError(f"count must be None, 1 or more; got {count}")
        total = -(-len(self._plan(_EVALUATION)[0]) // (self.batch_size * self.block))
        numbers = tf.data.Dataset.range(total if count is None else min(count, total))
        return self._dataset(numbers, self._evaluation_batch, [])

    def _batches(self, first, count):
        """Batches first to first + count - 1, one behind the other on a new first axis."""
        parts, steps = [], self.steps_per_epoch
        while count:
            epoch, number = divmod(first, steps)
            size = min(count, steps - number)
            parts.append(self._epoch_batches(epoch, number, size))
            first, count = first + size, count - size
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _epoch_batches(self, epoch, number, count):
        ids, left, right, offset = self._plan(epoch)
        rows = len(ids) // self.batch_size * np.arange(self.batch_size)[:, np.newaxis]
        steps = (number + np.arange(count))[:, np.newaxis, np.newaxis] * self.block
        within = np.arange(-self.window, self.block + self.window)
        places = (offset + steps + rows + within) % len(ids)  # [count, B, L + 2W]
        centres = places[..., self.window : self.window + self.block]
        return {
            "input_word_ids": ids[places],
            "left": left[centres].astype(np.int32),
            "right": right[centres].astype(np.int32),
            "negative_ids": self._negatives(epoch, number, count),
        }

    def _evaluation_batch(self, number):
        ids, left, right, _ = self._plan(_EVALUATION)
        first = int(number) * self.batch_size * self.block
        rows = np.arange(self.batch_size)[:, np.newaxis] * self.block
        places = first + rows + np.arange(-self.window, self.block + self.window)  # [B, L + 2W]
        centres = places[:, self.window : self.window + self.block]
        real = centres < len(ids)
        centres = np.minimum(centres, len(ids) - 1)
        return {
            "input_word_ids": ids[places % len(ids)],
            "left": np.where(real, left[centres], 0).astype(np.int32),
            "right": np.where(real, right[centres], 0).astype(np.int32),
            "negative_ids": self._negatives(_EVALUATION, int(number), 1)[0],
        }

    def _draw(self, epoch):
        """The words that stay in an epoch, their windows to the left and right, and the start."""
        rng = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        corpus = self.corpus
        kept = rng.random(corpus.num_words, np.float32) < self._keep[corpus.ids]
        ids = corpus.ids[kept]
        # Where sentences start among the words that stayed; those of which none did drop out.
        starts = np.concatenate([[0], np.cumsum(kept)])[corpus.sentence_starts]
        lengths = np.diff(starts)
        lengths = lengths[lengths > 0]
        ends = np.repeat(np.cumsum(lengths), lengths)
        behind = ends - 1 - np.arange(len(ids))
        before = np.repeat(lengths, lengths) - 1 - behind
        windows = rng.integers(1, self.window + 1, len(ids), dtype=np.int16)
        offset = int(rng.integers(max(1, len(ids))))
        small = np.minimum(self.window, [before, behind]).astype(np.int16)  # [2, words]
        return ids, np.minimum(windows, small[0]), np.minimum(windows, small[1]), offset

    def _negatives(self, epoch, number, count):
        """int32 [count, B, N]: the numbers of Philox that belong to these batches of the epoch."""
        size = self.batch_size * self.samples
        skip = number * size % 4  # a block of Philox is four numbers
        # Far beyond those that `_draw` takes: its key is the same.
        counter = (1 << 64) + number * size // 4
        random = np.random.Philox(key=[self.seed, epoch], counter=counter)
        random = random.random_raw(skip + count * size)[skip:]
        threshold, other = self._alias
        # 32 bits choose a word; 32 more, whether it is that one or the other.
        word = ((random >> np.uint64(32)) * np.uint64(len(other)) >> np.uint64(32)).astype(np.int64)
        low = (random & np.uint64(0xFFFFFFFF)).astype(np.int64)
        ids = np.where(low < threshold[word], word, other[word])
        return ids.astype(np.int32).reshape(count, self.batch_size, self.samples)

    def _dataset(self, numbers, function, lead):
        """What `function` makes of each number: arrays `[*lead, B, ...]`."""
        sizes = {
            "input_word_ids": self.block + 2 * self.window,
            "left": self.block,
            "right": self.block,
            "negative_ids": self.samples,
        }

        @tf.autograph.experimental.do_not_convert
        def element(number):
            values = tf.numpy_function(
                lambda number: list(function(number).values()),
                [number],
                [tf.int32] * len(sizes),
                stateful=False,
            )
            return {
                name: tf.ensure_shape(value, [*lead, self.batch_size, size])
                for (name, size), value in zip(sizes.items(), values, strict=True)
            }

        return numbers.map(element, num_parallel_calls=1, deterministic=True).prefetch(2)


def keep_probabilities(counts: np.ndarray, sample: float) -> np.ndarray:
    """`min(1, sqrt(t / f_w) + t / f_w)` with `f_w = counts_w / sum(counts)`, float64 [V].

    That is what word2vec.c does; the paper's equation 5 has `sqrt(t / f_w)` alone. t = 0: ones.
    """
    if not sample:
        return np.ones(len(counts))
    ratio = sample * counts.sum() / np.maximum(counts, 1)
    return np.minimum(1.0, np.sqrt(ratio) + ratio)


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's alias method: a number in proportion to `weights` [V] from two uniform ones.

    With u uniform in 0..V-1 and v in [0, 2^32): u if `v < threshold[u]`, else `other[u]`.

    Returns:
        threshold int64 [V] up to 2^32, other int64 [V].

    Raises:
        ValueError: for weights that are negative or all zero.
    """
    total = weights.sum()
    if not total > 0 or weights.min() < 0:
        raise ValueError("weights must be 0 or more, and not all of them 0")
    share = weights * (len(weights) / total)
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
    for rest in (*small, *large):  # 1, but for rounding
        share[rest] = 1.0
    return np.rint(np.array(share) * 2**32).astype(np.int64), other
