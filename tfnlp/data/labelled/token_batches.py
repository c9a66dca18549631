"""Batches of examples sorted by length, of about the same number of tokens, for prediction."""

from collections.abc import Sequence

import numpy as np


def token_batches(
    sizes: Sequence[int], lengths: Sequence[int], tokens: int, full: bool = False
) -> list[tuple[int, np.ndarray, int]]:
    """Return every example once, in batches of `[B, T]` with `B = max(1, tokens // T)`.

    The longest come first. T is the smallest of `lengths` that fits the first example of a batch,
    and B follows from T, so that there are at most as many shapes as lengths, and one more for
    the last batch, which has fewer rows.

    Args:
        sizes: length of each example, int [N].
        lengths: increasing; the last one fits all examples.
        tokens: of a batch, padding included.
        full: fill up the last batch to the next power of two of rows (at most B) with its first
            example, so that programs that are compiled for each shape can be used again.

    Returns:
        for each batch (T, rows, real): the example in each of its rows, int [B], of which the
        first `real` count.
    """
    sizes = np.asarray(sizes)
    order, first, plan = np.argsort(-sizes, kind="stable"), 0, []
    while first < len(order):
        length = int(lengths[np.searchsorted(lengths, sizes[order[first]])])
        most = max(1, tokens // length)
        rows = order[first : first + most]
        real = len(rows)
        if full:
            wanted = min(most, 2 ** (real - 1).bit_length())
            rows = np.append(rows, [rows[0]] * (wanted - real)).astype(rows.dtype)
        plan.append((length, rows, real))
        first += real
    return plan
