"""Times candidates side by side: alternating blocks, of which the medians count.

Clocks and neighbours of a shared machine drift from minute to minute. Here every candidate runs a
short block in turn, the order reversed each round, so that all see the same drift.
"""

import statistics
import time

PEAK_FLOPS = 2 * 2048**3  # of a call of `peak`


def measure(candidates, rounds=5, seconds=1.0, warm=2):
    """Median seconds per call of each candidate, a dict by name.

    Args:
        candidates: dict of name to function without arguments. It must not return before its
            work is done (fetch a number of the result).
        rounds: blocks per candidate.
        seconds: least length of a block; a block has at least one call.
        warm: calls before the clock starts (tracing, compiling).
    """
    for call in candidates.values():
        for _ in range(warm):
            call()
    blocks, names = {name: [] for name in candidates}, list(candidates)
    for _ in range(rounds):
        for name in names:
            start, calls = time.perf_counter(), 0
            while calls == 0 or time.perf_counter() - start < seconds:
                candidates[name]()
                calls += 1
            blocks[name].append((time.perf_counter() - start) / calls)
        names.reverse()
    return {name: statistics.median(times) for name, times in blocks.items()}


def peak(dtype="float32"):
    """A candidate that takes `PEAK_FLOPS` operations: a product of square matrices."""
    import tensorflow as tf

    x = tf.cast(tf.random.stateless_normal((2048, 2048), (0, 1)), dtype)
    return lambda: tf.matmul(x, x)[0, 0].numpy()
