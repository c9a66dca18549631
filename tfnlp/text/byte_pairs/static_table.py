"""A fixed set of 64-bit hashes, looked up in the TensorFlow graph by gathers alone.

Row displacement: each hash has a row and a column; every row is shifted by a distance of its own
so that no two hashes get the same slot: `slot = (shift[row] + column) mod slots`. A look-up is two
gathers, which use all cores, while TensorFlow's hash tables look up one key at a time. The table
is plain constants: nothing is initialised when a SavedModel is loaded.
"""

import numpy as np
import tensorflow as tf

_MIXERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xFF51AFD7ED558CCD)


class StaticTable:
    """Table of slots for the distinct int64 `keys` `[n]`.

    Attributes:
        size: number of slots, at least twice that of keys.
        slots: int `[n]`, numpy, the slot of each key.
    """

    def __init__(self, keys: np.ndarray) -> None:
        bits = max(4, int(2 * max(1, len(keys)) - 1).bit_length())
        self.size = 1 << bits
        for mixer in _MIXERS:
            self._mixer = int(np.uint64(mixer).astype(np.int64))
            self._row_shift, self._row_mask = 64 - bits, (1 << (bits - 1)) - 1
            self._column_shift = 64 - 2 * bits
            with np.errstate(over="ignore"):
                mixed = keys * np.int64(self._mixer)
            rows = (mixed >> self._row_shift) & self._row_mask
            columns = (mixed >> self._column_shift) & (self.size - 1)
            shifts = _displace(rows, columns, self._row_mask + 1, self.size)
            if shifts is not None:
                break
        else:
            raise ValueError(f"no table found for {len(keys)} keys; remove equal ones")
        self.slots = (shifts[rows] + columns) & (self.size - 1)
        self._shifts = tf.constant(shifts)

    def find(self, keys: tf.Tensor) -> tf.Tensor:
        """Return the slots of int64 keys `[N]`; an unknown key gets an arbitrary one."""
        mixed = keys * self._mixer
        rows = tf.bitwise.right_shift(mixed, self._row_shift) & self._row_mask
        columns = tf.bitwise.right_shift(mixed, self._column_shift)
        return (tf.gather(self._shifts, rows) + columns) & (self.size - 1)


def _displace(
    rows: np.ndarray, columns: np.ndarray, num_rows: int, num_slots: int
) -> np.ndarray | None:
    """Return a shift for each row, int64 `[num_rows]`, or None if there are none that fit."""
    if len(np.unique(rows * num_slots + columns)) < len(rows):
        return None
    shifts = np.zeros(num_rows, np.int64)
    used = np.zeros(num_slots, bool)
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=num_rows)
    begins = np.cumsum(counts) - counts
    tries = np.arange(num_slots)
    for row in np.argsort(-counts, kind="stable"):
        count = counts[row]
        if count < 2:
            break
        own = columns[order[begins[row] : begins[row] + count]]
        for first in range(0, num_slots, 64):
            places = (tries[first : first + 64, None] + own) & (num_slots - 1)
            fits = np.flatnonzero(~used[places].any(1))
            if len(fits):
                shifts[row] = first + fits[0]
                used[places[fits[0]]] = True
                break
        else:
            return None
    single = np.flatnonzero(counts == 1)
    free = np.flatnonzero(~used)[: len(single)]
    shifts[single] = (free - columns[order[begins[single]]]) & (num_slots - 1)
    return shifts
