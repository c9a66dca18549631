"""The largest batch that fits, with as few compilations as may be: each takes minutes."""

_LARGEST = 2**20


def largest_batch(needed, guess, fixed, usable):
    """The largest power of two b for which `needed(b)` stays within `usable`.

    What a step needs is nearly linear in the batch, so every answer, that of a batch which does
    not fit included, moves the guess; the end is always a batch that was compiled and fits beside
    its double that was compiled and does not.

    Args:
        needed: function of the batch to `(fits, bytes)`.
        guess: where to begin, a power of two.
        fixed: bytes that don't depend on the batch, roughly.
        usable: bytes that there are, roughly.

    Returns:
        the batch, or 0 if not even 1 fits.
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


def _predicted(known, fixed, usable):
    """The largest power of two that should fit, by the line through two known sizes."""
    (batch, size), *others = sorted(known.items(), key=lambda item: abs(item[1] - usable))
    slope = (size - fixed) / batch
    if others and others[0][1] != size:
        slope = (size - others[0][1]) / (batch - others[0][0])
    if slope <= 0:
        return _LARGEST if size < usable else 1
    room = batch + (usable - size) / slope
    return power_of_two(room)


def power_of_two(number):
    """The largest power of two that is not above `number`; 1 below 2."""
    return min(1 << max(0, int(number).bit_length() - 1), _LARGEST)
