"""Batches of rows with several examples of a task, each on its own."""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.batches import joined, numbers
from tfnlp.data.numbered import numbered_batches, specs_of
from tfnlp.data.pretraining.packed_rows import PackedRows


class PackedTaskBatches:
    """Rows of T tokens with examples side by side, for a model of an encoder with `packed=True`.

    Which examples share a row is drawn with the seed, once: of 1,024 examples the longest first,
    each into the first row with enough room, see `first_fit`. The order of the rows is drawn with
    (seed, epoch): batches are a pure function of (data, seed, step). The last batch of an epoch is
    filled up with empty rows. A batch is a dict with B = batch_size and S, the most examples of any
    row; integers are int32, other numbers float32:

        each of tokens   [B, T] or [B, C, T]  0 at padding, which is on the right
        each of fixed    [B, S, ...]  of the examples of a row, then zeros
        sequence_ids     [B, T]       the example's number in its row from 1 on, 0 for padding
        first_positions  [B, S]       where examples begin, then zeros
        weights          [B, S]       1 for examples, then zeros
                         [B, T]       `tokens["weights"]`, if it is given

    Args:
        tokens: columns by name; each has for each example an array `[n]` or `[C, n]`, the first
            column `[n]`; n, from 1 to T, is the same in all columns of an example.
        fixed: columns by name, `[N, ...]`, such as labels.
        batch_size: B, over all devices.
        length: T.
        seed: int in [0, 2^31).
        examples_per_batch: B is then the multiple of `batch_size` whose rows hold about so many
            examples, or `batch_size` where that holds more.

    Raises:
        ValueError: an example with more than T tokens, a column with another number of tokens.
    """

    def __init__(
        self,
        tokens: Mapping[str, Sequence[np.ndarray]],
        fixed: Mapping[str, np.ndarray],
        *,
        batch_size: int,
        length: int,
        seed: int = 0,
        examples_per_batch: int | None = None,
    ) -> None:
        first = next(iter(tokens))
        sizes = np.array([len(array) for array in tokens[first]])
        if sizes.max() > length:
            raise ValueError(
                f"tokens[{first!r}][{sizes.argmax()}] has {sizes.max()} tokens, more than "
                f"length={length}"
            )
        self.length, self.seed = length, seed
        # Neighbours share rows: those of a file that is sorted by label would be of one class.
        self._shuffled = _generator(seed, 2**32).permutation(len(sizes))
        self._rows = PackedRows(sizes[self._shuffled], length)
        if examples_per_batch is not None:
            rows = examples_per_batch * self._rows.count / len(sizes)
            batch_size *= max(1, round(rows / batch_size))
        self.batch_size = batch_size
        self._starts = np.cumsum(sizes) - sizes
        self._tokens = {name: joined(name, column, sizes) for name, column in tokens.items()}
        self._fixed = {name: numbers(column) for name, column in fixed.items()}
        self.steps_per_epoch = -(-self._rows.count // self.batch_size)
        self._order = functools.lru_cache(maxsize=2)(self._draw)

    @property
    def rows_per_epoch(self) -> int:
        """Rows of an epoch."""
        return self._rows.count

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """Return the batch of a step, see the class."""
        epoch, position = divmod(int(step), self.steps_per_epoch)
        first = position * self.batch_size
        rows = self._order(epoch)[first : first + self.batch_size]
        empty = np.full(self.batch_size - len(rows), self._rows.count)
        return self._gather(np.concatenate([rows, empty]))

    def dataset(self, first_step: int = 0) -> tf.data.Dataset:
        """Return an endless dataset whose element n equals `batch(first_step + n)`."""
        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        return numbered_batches(steps, self.batch, specs_of(self.batch(0)))

    def _draw(self, epoch: int) -> np.ndarray:
        """Return the rows of an epoch in their order."""
        return _generator(self.seed, epoch).permutation(self._rows.count)

    def _gather(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        sequence, within, sequence_ids = self._rows.places(rows)  # [B, T] each
        real = sequence_ids > 0
        example = self._shuffled[sequence]
        at = np.where(real, self._starts[example] + within, 0)
        batch = {}
        for name, column in self._tokens.items():
            values = column[..., at] * real.astype(column.dtype)  # [B, T] or [C, B, T]
            batch[name] = np.moveaxis(values, -2, 0)
        batch["sequence_ids"] = sequence_ids.astype(np.int32)
        begins = real & (within == 0)
        row, place = np.nonzero(begins)
        slot = sequence_ids[row, place] - 1
        batch["first_positions"] = self._in_slots(row, slot, place.astype(np.int32))
        for name, column in self._fixed.items():
            batch[name] = self._in_slots(row, slot, column[example[row, place]])
        if "weights" not in batch:
            batch["weights"] = self._in_slots(row, slot, np.ones(len(row), np.float32))
        return batch

    def _in_slots(self, row: np.ndarray, slot: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return `[B, S, ...]` with the values `[n, ...]` of the examples, elsewhere zeros."""
        found = np.zeros((self.batch_size, self._rows.most, *values.shape[1:]), values.dtype)
        found[row, slot] = values
        return found


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, number]))
