"""Search for the largest batch that fits, with few compilations: each takes minutes."""

from collections.abc import Callable, Mapping

_LARGEST = 2**20


def largest_batch(
    needed: Callable[[int], tuple[bool, int]], guess: int, fixed: float, usable: float
) -> int:
    """Return the largest power of two b that fits according to `needed(b)`.

    The memory of a step is nearly linear in the batch, so every result, also that of a batch which
    does not fit, improves the guess. At the end one batch was compiled and fits, and its double was
    compiled and does not.

    Args:
        needed: function of the batch that returns `(fits, bytes)`.
        guess: the first batch, a power of two.
        fixed: bytes that do not depend on the batch, roughly.
        usable: bytes that are available, roughly.

    Returns:
        The batch, or 0 if not even 1 fits.
    """
    known = {}
    low, high = 0, 2 * _LARGEST  # fits, does not
    batch = guess
    while high > max(1, 2 * low):
        fits, size = needed(batch)
        known[batch] = size
        if fits:
            low = max(low, batch)
        else:
            high = min(high, batch)
        batch = _predicted(known, fixed, usable)
        batch = min(max(batch, 2 * low, 1), max(high // 2, 1))
    return low


def _predicted(known: Mapping[int, int], fixed: float, usable: float) -> int:
    """Return the largest power of two that should fit, by the line through two known sizes."""
    (batch, size), *others = sorted(known.items(), key=lambda item: abs(item[1] - usable))
    slope = (size - fixed) / batch
    if others and others[0][1] != size:
        slope = (size - others[0][1]) / (batch - others[0][0])
    if slope <= 0:
        return _LARGEST if size < usable else 1
    return power_of_two(batch + (usable - size) / slope)


def power_of_two(number: float) -> int:
    """Return the largest power of two that is not above `number`; 1 below 2."""
    return min(1 << max(0, int(number).bit_length() - 1), _LARGEST)
