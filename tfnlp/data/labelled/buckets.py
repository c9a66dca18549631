"""Batches of examples of similar length, a pure function of (data, seed, step).

Each example is padded to the smallest of a few fixed lengths that it fits into, and shares its
batch with others of that length. Every epoch of training has every example once; those that are
left over when the batches of a length are full go to the next length, so that no batch but one of
the longest has fewer examples than others: in a mean over few examples each would weigh more. That
batch, and in an evaluation the last of each length, is filled up with some of its examples a second
time, with weight 0: every batch has the same size and every loss and score is exact.

Mixed batches are drawn from examples of all lengths. In a mean over the tokens of a batch, those of
short examples weigh more where a batch has no others, and of few updates each sees one kind of
example: taggers learn more from mixed batches. Their examples come sorted, the longest first, so
that micro-batches are of similar length and need little padding (see `Objective.trimmed`).

Batches by tokens have more examples where these are short: rows times length is about the same in
all of them (Vaswani et al. 2017, section 5.1).
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfnlp.data.numbered import numbered_batches


class LengthBuckets:
    """Batches of a few fixed lengths, shuffled in each epoch with (seed, epoch).

    Step n belongs to epoch `n // steps_per_epoch`. With one length the shapes of all batches are
    static, which XLA needs.

    A subclass adds `_gather(length, rows, real)`, the batch of the examples `rows` (int [B]) as
    a dict of arrays, of which the first `real` count; and `_specs(length)`, the `tf.TensorSpec`s
    of a batch under the same names, for a length that may be None.

    Args:
        name: the argument with the examples, for errors.
        sizes: length of each example, int [N], 1 or more.
        batch_size, lengths, seed, mixed: as of `TaskBatches`; batches of an evaluation never mix.
        batch_tokens: B is then the largest multiple of `batch_size` with B T of at most so many
            tokens, padding included, or `batch_size` where that has more; not with `mixed`.
    """

    def __init__(
        self,
        name: str,
        sizes: np.ndarray,
        *,
        batch_size: int,
        lengths: Sequence[int] | None,
        seed: int,
        mixed: bool = False,
        batch_tokens: int | None = None,
    ) -> None:
        self.batch_size, self.seed = batch_size, seed
        self.lengths = [int(sizes.max())] if lengths is None else [int(n) for n in lengths]
        if sizes.max() > self.lengths[-1]:
            raise ValueError(
                f"{name}[{int(sizes.argmax())}] has {sizes.max()} tokens, more than the last of "
                f"lengths={self.lengths}; add a longer one or cut it"
            )
        bucket = np.searchsorted(self.lengths, sizes)  # the smallest length that fits
        self._buckets = [
            (length, np.flatnonzero(bucket == b))
            for b, length in enumerate(self.lengths)
            if (bucket == b).any()
        ]
        self._sizes, self.batch_tokens = sizes, batch_tokens
        draw = self._draw_mixed if mixed else self._draw
        self.plan = functools.lru_cache(maxsize=2)(draw)
        self.steps_per_epoch = len(self.plan(0))  # of every epoch

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """Return the batch of a step, see the class."""
        epoch, position = divmod(int(step), self.steps_per_epoch)
        return self._gather(*self.plan(epoch)[position])

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n equals `batch(first_step + n)`."""
        return self._as_dataset(self.batch, tf.data.Dataset.range(first_step, tf.int64.max))

    def evaluation_batches(self) -> tf.data.Dataset:
        """Return every example once, the same batches at every call, short examples first."""
        plan = self._cut([members for _, members in self._buckets])
        return self._as_dataset(
            lambda number: self._gather(*plan[int(number)]), tf.data.Dataset.range(len(plan))
        )

    def _draw(self, epoch: int) -> list[tuple[int, np.ndarray, int]]:
        """Return the batches of an epoch in their order, as arguments of `_gather`."""
        rng = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        left, buckets = np.zeros(0, np.int64), []
        for number, (length, members) in enumerate(self._buckets, 1):
            size = self._rows(length)
            drawn = rng.permutation(np.concatenate([left, members]))
            whole = len(drawn) if number == len(self._buckets) else len(drawn) // size * size
            buckets.append(drawn[:whole])
            left = drawn[whole:]
        plan = self._cut(buckets)
        return [plan[index] for index in rng.permutation(len(plan))]

    def _draw_mixed(self, epoch: int) -> list[tuple[int, np.ndarray, int]]:
        """Return what `_draw` does, of examples of all lengths; the longest of a batch first."""
        rng = np.random.Generator(np.random.Philox(key=[self.seed, epoch]))
        order, size, plan = rng.permutation(len(self._sizes)), self.batch_size, []
        for first in range(0, len(order), size):
            drawn = order[first : first + size]
            drawn = drawn[np.argsort(-self._sizes[drawn], kind="stable")]
            fitting = np.searchsorted(self.lengths, self._sizes[drawn[0]])
            rows = drawn[np.arange(size) % len(drawn)]
            plan.append((self.lengths[fitting], rows, len(drawn)))
        return plan

    def _cut(self, buckets: Sequence[np.ndarray]) -> list[tuple[int, np.ndarray, int]]:
        """Return the batches of each bucket: (length, examples [B], how many of them count)."""
        plan = []
        for (length, _), members in zip(self._buckets, buckets, strict=True):
            size = self._rows(length)
            for first in range(0, len(members), size):
                rows = members[np.arange(first, first + size) % len(members)]
                plan.append((length, rows, min(size, len(members) - first)))
        return plan

    def _rows(self, length: int) -> int:
        """Return the rows of a batch of examples of this length."""
        if self.batch_tokens is None:
            return self.batch_size
        return max(1, self.batch_tokens // (length * self.batch_size)) * self.batch_size

    def _as_dataset(
        self, function: Callable[[int], dict[str, np.ndarray]], numbers: tf.data.Dataset
    ) -> tf.data.Dataset:
        specs = self._specs(self.lengths[0] if len(self.lengths) == 1 else None)
        return numbered_batches(numbers, function, specs)
