"""Batches of the examples of a task, a pure function of (data, seed, step)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.labelled.buckets import LengthBuckets
from tfnlp.data.labelled.token_batches import token_batches

_WEIGHTS = ("weights", "soft_weights")  # 0 for repeated examples


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


class TaskBatches(LengthBuckets):
    """Batches of examples of similar length, or mixed ones; see `LengthBuckets`.

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
            then the smallest of `lengths` that fits the longest.
        batch_tokens: batches by tokens, see `LengthBuckets`.

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
        first = next(iter(tokens))
        sizes = np.array([np.shape(array)[-1] for array in tokens[first]])
        if batch_tokens is not None and pad_all:
            raise ValueError(
                f"batch_tokens={batch_tokens} can't be given with pad_all=True, rows of one length"
            )
        super().__init__(
            f"tokens[{first!r}]",
            sizes,
            batch_size=batch_size,
            lengths=lengths,
            seed=seed,
            mixed=mixed,
            batch_tokens=batch_tokens,
        )
        self.pad_all = pad_all
        self._starts = np.cumsum(sizes) - sizes
        # [total] or [C, total]: the examples of a column, one after the other
        self._tokens = {name: joined(name, column, sizes) for name, column in tokens.items()}
        self._fixed = {name: numbers(column) for name, column in fixed.items()}
        self._table = table

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

    def _gather(self, length: int, rows: np.ndarray, real: int) -> dict[str, np.ndarray]:
        length = self.lengths[-1] if self.pad_all else length
        counts = np.arange(len(rows)) < real  # [B]
        time = np.arange(length)
        mask = time < self._sizes[rows, np.newaxis]  # [B, T]
        places = np.where(mask, self._starts[rows, np.newaxis] + time, 0)  # [B, T]
        batch = {name: column[rows] for name, column in self._fixed.items()}
        for name, column in self._tokens.items():
            values = column[..., places] * mask.astype(column.dtype)  # [B, T] or [C, B, T]
            batch[name] = np.moveaxis(values, -2, 0)  # [B, T] or [B, C, T]
        batch.setdefault("weights", counts)
        for name in _WEIGHTS:
            if name in batch:  # [B] or [B, T]
                batch[name] = (batch[name].T * counts).T.astype(np.float32)
        if self._table is not None:
            batch["lm_layers"] = np.asarray(self._table[batch.pop("rows")], np.float32)
        return batch

    def _specs(self, length: int | None) -> dict[str, tf.TensorSpec]:
        length = self.lengths[-1] if self.pad_all else length
        size = self.batch_size if self.batch_tokens is None else None
        specs = {
            name: tf.TensorSpec([size, *column.shape[1:]], tf.as_dtype(column.dtype))
            for name, column in self._fixed.items()
        }
        for name, column in self._tokens.items():
            shape = [size, *column.shape[:-1], length]
            specs[name] = tf.TensorSpec(shape, tf.as_dtype(column.dtype))
        specs.setdefault("weights", tf.TensorSpec([size], tf.float32))
        for name in _WEIGHTS:
            if name in specs:
                specs[name] = tf.TensorSpec(specs[name].shape, tf.float32)
        if self._table is not None:
            shape = [*specs.pop("rows").shape, *self._table.shape[1:]]
            specs["lm_layers"] = tf.TensorSpec(shape, tf.float32)
        return specs


def joined(name: str, column: Sequence[np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """Return the arrays of all examples as one: [total] or [C, total], int32 or float32."""
    array = numbers(np.concatenate([np.asarray(part) for part in column], axis=-1))
    if array.shape[-1] != sizes.sum():
        raise ValueError(
            f"tokens[{name!r}] has {array.shape[-1]} tokens, the first column {sizes.sum()}"
        )
    return array


def numbers(column: Any) -> np.ndarray:
    """Return a column as int32 or float32."""
    column = np.asarray(column)
    return column.astype(np.float32 if column.dtype.kind == "f" else np.int32)
