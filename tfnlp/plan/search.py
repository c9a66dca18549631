"""Search for the largest batch that fits, with few compilations: each takes minutes."""

import bisect
from collections.abc import Callable, Mapping, Sequence

POWERS = [2**n for n in range(21)]  # rows that are tried


def largest_fitting(
    needed: Callable[[int], tuple[bool, int]],
    sizes: Sequence[int],
    guess: float,
    fixed: float,
    usable: float,
) -> int:
    """Return the largest of `sizes` that fits according to `needed`, or 0.

    The memory of a step is nearly linear in the batch, so every result, also that of a batch which
    does not fit, improves the guess. At the end one batch was compiled and fits, and the next
    larger one was compiled and does not. The first is near `guess`; `fixed` are about the bytes
    that do not depend on the batch, `usable` about those that are available.
    """
    known = {}
    low, high = -1, len(sizes)  # places in `sizes`: fits, does not
    place = bisect.bisect_right(sizes, guess) - 1
    while high - low > 1:
        place = min(max(place, low + 1), high - 1)
        fits, known[sizes[place]] = needed(sizes[place])
        if fits:
            low = place
        else:
            high = place
        place = bisect.bisect_right(sizes, predicted(known, fixed, usable)) - 1
    return sizes[low] if low >= 0 else 0


def predicted(known: Mapping[int, int], fixed: float, usable: float) -> float:
    """Return the batch that should fill the memory, by the line through two known sizes.

    `known` has batches and the bytes that they need, at least one.
    """
    (batch, size), *others = sorted(known.items(), key=lambda item: abs(item[1] - usable))
    slope = (size - fixed) / batch
    if others and others[0][1] != size:
        slope = (size - others[0][1]) / (batch - others[0][0])
    if slope <= 0:
        return POWERS[-1] if size < usable else 1
    return batch + (usable - size) / slope
