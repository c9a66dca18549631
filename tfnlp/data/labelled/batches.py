"""Batches of the examples of a task, a pure function of (data, seed, step).

Each example is padded to the smallest of a few fixed lengths that it fits into, and shares its
batch with others of that length. Those that are left over when the batches of a length are full go
to the next length, so that no batch but one of the longest has fewer examples than others: in a
mean over few examples each would weigh more. That batch, and in an evaluation the last of each
length, is filled up with examples of weight 0.

Mixed batches are drawn from examples of all lengths: in a mean over the tokens of a batch, those of
short examples weigh more where a batch has no others, so taggers learn more from mixed batches. The
longest come first, so that micro-batches need little padding (see `Objective.trimmed`).

Batches by tokens have more examples where these are short: rows times length is about the same in
all of them (Vaswani et al. 2017, section 5.1). Rows can also hold several examples side by side.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.numbered import Batches, generator, numbered_batches, specs_of
from tfnlp.data.pretraining.packed_rows import PackedRows

_WEIGHTS = ("weights", "soft_weights")  # 0 for repeated examples
# A batch costs a CPU as much as 50 to 110 tokens do beside its own (BERT, 4 layers of 256): where
# lengths fall evenly, batches with as much padding take the least time.
_PADDING = 64


def bucket_lengths(sizes: Sequence[int], count: int = 6, multiple: int = 8) -> list[int]:
    """Return `lengths` for `TaskBatches` that divide the examples into about equal parts.

    Args:
        sizes: length of each example, int [N], 1 or more.
        count: largest number of lengths; the last one is that of the longest example.
        multiple: each length but the last is rounded up to a multiple of it.
    """
    sizes = np.sort(np.asarray(sizes))
    longest = int(sizes[-1])
    shares = sizes[[-(-len(sizes) * i // count) - 1 for i in range(1, count)]]
    rounded = {-(-int(size) // multiple) * multiple for size in shares}
    return sorted({size for size in rounded if size < longest} | {longest})


def token_batches(
    sizes: Sequence[int], lengths: Sequence[int], tokens: int, full: bool = False
) -> list[tuple[int, np.ndarray, int]]:
    """Return every example once, in batches of `[B, T]` with `B <= max(1, tokens // T)`.

    The longest come first. T is the smallest of `lengths` that fits the first example of a batch.
    A batch ends before an example that would fit a smaller one, if padding to T then wastes more
    than 64 tokens.

    Args:
        sizes: length of each example, int [N].
        lengths: increasing; the last one fits all examples.
        tokens: of a batch, padding included.
        full: for programs that are compiled for each shape: `B = tokens // T` whatever padding that
            takes, and the last batch is filled up to a power of two of rows with its first example.

    Returns:
        for each batch (T, rows, real): the example in each row, int [B]; the first `real` count.
    """
    sizes = np.asarray(sizes)
    order, first, plan = np.argsort(-sizes, kind="stable"), 0, []
    padded = np.asarray(lengths)[np.searchsorted(lengths, sizes[order])]
    while first < len(order):
        length = int(padded[first])
        most = max(1, tokens // length)
        if not full:
            wasted = np.cumsum(length - padded[first : first + most])
            most = max(1, int(np.searchsorted(wasted, _PADDING, side="right")))
        rows = order[first : first + most]
        real = len(rows)
        if full:
            wanted = min(most, 2 ** (real - 1).bit_length())
            rows = np.append(rows, [rows[0]] * (wanted - real)).astype(rows.dtype)
        plan.append((length, rows, real))
        first += real
    return plan


class _ExampleBatches(Batches):
    """Columns of examples, in memory one after the other, and where each example begins."""

    def __init__(
        self,
        tokens: Mapping[str, Sequence[np.ndarray]],
        fixed: Mapping[str, np.ndarray],
        longest: int | None,
        limit: str,
    ) -> None:
        first = next(iter(tokens))
        sizes = np.array([np.shape(array)[-1] for array in tokens[first]])
        if longest is not None and sizes.max() > longest:
            raise ValueError(
                f"tokens[{first!r}][{int(sizes.argmax())}] has {sizes.max()} tokens, more than "
                f"{limit}; give a longer one or cut it"
            )
        self._sizes, self._starts = sizes, np.cumsum(sizes) - sizes
        self._tokens = {}  # [total] or [C, total]
        for name, column in tokens.items():
            array = _numbers(np.concatenate([np.asarray(part) for part in column], axis=-1))
            if array.shape[-1] != sizes.sum():
                raise ValueError(
                    f"tokens[{name!r}] has {array.shape[-1]} tokens, the first column {sizes.sum()}"
                )
            self._tokens[name] = array
        self._fixed = {name: _numbers(column) for name, column in fixed.items()}

    def _token_columns(self, places: np.ndarray, real: np.ndarray) -> dict[str, np.ndarray]:
        """Return what is at places [B, T], [B, T] or [B, C, T]; zeros where they are not `real`."""
        places = np.where(real, places, 0)
        return {
            name: np.moveaxis(column[..., places] * real.astype(column.dtype), -2, 0)
            for name, column in self._tokens.items()
        }


class TaskBatches(_ExampleBatches):
    """Batches of a few fixed lengths, shuffled in each epoch with (seed, epoch).

    Step n belongs to epoch `n // steps_per_epoch`. With one length the shapes of all batches are
    static, which XLA needs.

    A batch is a dict with B = batch_size, T one of `lengths`; integers are int32, other numbers
    float32:

        each of tokens     [B, T] or [B, C, T]  0 at padding, which is on the right
        each of fixed      [B, ...]
        weights   float32  [B]                  1 for examples that count, 0 for repeated ones;
                                                times `fixed["weights"]`, if it is given
                           [B, T]               `tokens["weights"]` times that, if it is given
        soft_weights float32                    the same; only if it is given
        lm_layers float32  [B, T, L, D] or      rows of the table, instead of `tokens["rows"]`;
                           [B, C, T, L, D]      zeros at padding

    Args:
        tokens: columns by name; each has for each example an array whose last axis is time, [n] or
            [C, n]; n is the same in all columns of an example, C in all examples of a column.
        fixed: columns by name, [N, ...], such as labels.
        batch_size: B, over all devices.
        lengths: increasing; an example is padded to the smallest one that fits. None: one
            length, that of the longest example. With one length, T is a static shape, else None.
        table: `[M, L, D]` of any float type, in memory or mapped from disk; row 0 is zeros, for
            special tokens and padding.
        pad_all: every batch is padded to the last of `lengths`; the examples of a batch and the
            order of batches stay the same.
        seed: int in [0, 2^31).
        mixed: whether the batches of training have examples of all lengths, the longest first; T is
            then the smallest of `lengths` that fits the longest. Those of an evaluation never mix.
        batch_tokens: B is then the largest multiple of `batch_size` with B T of at most so many
            tokens, padding included, or `batch_size` where that has more; not with `mixed`.

    Raises:
        ValueError: an example longer than the last of `lengths`, a column with another number of
            tokens, `batch_tokens` with `pad_all`.
    """

    def __init__(
        self,
        tokens: Mapping[str, Sequence[np.ndarray]],
        fixed: Mapping[str, np.ndarray],
        *,
        batch_size: int,
        lengths: Sequence[int] | None = None,
        table: np.ndarray | None = None,
        pad_all: bool = False,
        seed: int = 0,
        mixed: bool = False,
        batch_tokens: int | None = None,
    ) -> None:
        longest = None if lengths is None else int(lengths[-1])
        super().__init__(tokens, fixed, longest, f"the last of lengths={lengths}")
        if batch_tokens is not None and pad_all:
            raise ValueError(
                f"batch_tokens={batch_tokens} can't be given with pad_all=True, rows of one length"
            )
        self.batch_size, self.seed, self._table = batch_size, seed, table
        self.pad_all, self.batch_tokens = pad_all, batch_tokens
        self.lengths = [int(n) for n in lengths or [self._sizes.max()]]
        bucket = np.searchsorted(self.lengths, self._sizes)  # the smallest length that fits
        self._buckets = [
            (length, np.flatnonzero(bucket == b))
            for b, length in enumerate(self.lengths)
            if (bucket == b).any()
        ]
        draw = self._draw_mixed if mixed else self._draw
        self.plan = functools.lru_cache(maxsize=2)(draw)
        self.steps_per_epoch = len(self.plan(0))  # of every epoch

    def batch(self, step: int) -> dict[str, np.ndarray]:
        epoch, position = divmod(int(step), self.steps_per_epoch)
        return self._gather(*self.plan(epoch)[position])

    def evaluation_batches(self) -> tf.data.Dataset:
        """Return every example once, the same batches at every call, short examples first."""
        plan = self._cut([members for _, members in self._buckets])
        numbers = tf.data.Dataset.range(len(plan))
        return numbered_batches(numbers, lambda number: self._gather(*plan[number]), self._specs())

    def by_tokens(self, full: bool = False) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        """Yield every example once, sorted by length, in batches of about the same size.

        A batch has as many tokens, padding included, as `batch_size` of the longest examples: of
        short ones it has more rows. See `tfnlp.data.token_batches`.

        Args:
            full: few shapes, for programs that are compiled for each.

        Yields:
            (batch, examples): dict of arrays as in the class, with B rows of their own; and the
            examples in its first rows, int [n]. The others only fill up.
        """
        lengths = self.lengths[-1:] if self.pad_all else self.lengths
        tokens = self.batch_size * lengths[-1]
        for length, rows, real in token_batches(self._sizes, lengths, tokens, full):
            yield self._gather(length, rows, real), rows[:real]

    def _draw(self, epoch: int) -> list[tuple[int, np.ndarray, int]]:
        """Return the batches of an epoch in their order, as arguments of `_gather`."""
        rng = generator(self.seed, epoch)
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
        order, size = generator(self.seed, epoch).permutation(len(self._sizes)), self.batch_size
        plan = []
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

    def _gather(self, length: int, rows: np.ndarray, real: int) -> dict[str, np.ndarray]:
        length = self.lengths[-1] if self.pad_all else length
        counts = np.arange(len(rows)) < real  # [B]
        time = np.arange(length)
        real_places = time < self._sizes[rows, np.newaxis]  # [B, T]
        batch = {name: column[rows] for name, column in self._fixed.items()}
        batch |= self._token_columns(self._starts[rows, np.newaxis] + time, real_places)
        batch.setdefault("weights", counts)
        for name in _WEIGHTS:
            if name in batch:  # [B] or [B, T]
                batch[name] = (batch[name].T * counts).T.astype(np.float32)
        if self._table is not None:
            batch["lm_layers"] = np.asarray(self._table[batch.pop("rows")], np.float32)
        return batch

    def _specs(self) -> dict[str, tf.TensorSpec]:
        batch = self.batch(0)
        shapes = {name: list(array.shape) for name, array in batch.items()}
        if len(self.lengths) > 1 and not self.pad_all:
            for name in batch.keys() & {*self._tokens, "lm_layers"}:
                shapes[name][-3 if name == "lm_layers" else -1] = None
        if self.batch_tokens is not None:
            for shape in shapes.values():
                shape[0] = None
        return {
            name: tf.TensorSpec(shapes[name], spec.dtype) for name, spec in specs_of(batch).items()
        }


class PackedTaskBatches(_ExampleBatches):
    """Rows of T tokens with examples side by side, for a model of an encoder with `packed=True`.

    Which examples share a row is drawn with the seed, once: of 1,024 examples the longest first,
    each into the first row with enough room, see `first_fit`. The order of the rows is drawn with
    (seed, epoch). The last batch of an epoch is filled up with empty rows. A batch is a dict with B
    = batch_size and S, the most examples of any row; integers are int32, other numbers float32:

        each of tokens   [B, T] or [B, C, T]  0 at padding, which is on the right
        each of fixed    [B, S, ...]  of the examples of a row, then zeros
        sequence_ids     [B, T]       the example's number in its row from 1 on, 0 for padding
        first_positions  [B, S]       where examples begin, then zeros
        weights          [B, S]       1 for examples, then zeros
                         [B, T]       `tokens["weights"]`, if it is given

    Args:
        tokens, fixed, batch_size, seed: see `TaskBatches`; the first column of tokens is `[n]`.
        length: T.
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
        super().__init__(tokens, fixed, length, f"length={length}")
        self.length, self.seed = length, seed
        # Neighbours share rows: those of a file that is sorted by label would be of one class.
        self._shuffled = generator(seed, 2**32).permutation(len(self._sizes))
        self._rows = PackedRows(self._sizes[self._shuffled], length)
        if examples_per_batch is not None:
            rows = examples_per_batch * self._rows.count / len(self._sizes)
            batch_size *= max(1, round(rows / batch_size))
        self.batch_size = batch_size
        self.steps_per_epoch = -(-self._rows.count // self.batch_size)
        self._order = functools.lru_cache(maxsize=2)(self._draw)

    @property
    def rows_per_epoch(self) -> int:
        """Rows of an epoch."""
        return self._rows.count

    def batch(self, step: int) -> dict[str, np.ndarray]:
        epoch, position = divmod(int(step), self.steps_per_epoch)
        first = position * self.batch_size
        rows = self._order(epoch)[first : first + self.batch_size]
        empty = np.full(self.batch_size - len(rows), self._rows.count)
        return self._gather(np.concatenate([rows, empty]))

    def _draw(self, epoch: int) -> np.ndarray:
        return generator(self.seed, epoch).permutation(self._rows.count)

    def _gather(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        sequence, within, sequence_ids = self._rows.places(rows)  # [B, T] each
        real = sequence_ids > 0
        example = self._shuffled[sequence]
        batch = self._token_columns(self._starts[example] + within, real)
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


def _numbers(column: Any) -> np.ndarray:
    """Return a column as int32 or float32."""
    column = np.asarray(column)
    return column.astype(np.float32 if column.dtype.kind == "f" else np.int32)
