"""Batches of examples sorted by length, of about the same number of tokens, for prediction."""

from collections.abc import Sequence

import numpy as np

# A batch costs a CPU as much as 50 to 110 tokens do beside its own (BERT, 4 layers of 256): where
# lengths fall evenly, batches with as much padding take the least time.
_PADDING = 64


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
        full: for programs that are compiled for each shape, and used again: `B = tokens // T`
            whatever padding that takes, so that there are as many shapes as lengths; and the last
            batch is filled up to the next power of two of rows (at most B) with its first example.

    Returns:
        for each batch (T, rows, real): the example in each of its rows, int [B], of which the
        first `real` count.
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
