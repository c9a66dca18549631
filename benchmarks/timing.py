"""Times candidates side by side: alternating blocks, medians, blocks disturbed by others dropped.

A figure taken alone says little on a shared machine: clocks and neighbours drift from minute to
minute. Here every candidate runs a short block in turn, the order reversed each round, so that
all see the same drift; a block during which *other* processes used more than `DISTURBED` of the
machine is run again, and left out of the median.
"""

import contextlib
import os
import pathlib
import statistics
import time
from dataclasses import dataclass

DISTURBED = 0.10  # share of all cores that others may use during a block that counts


@dataclass
class Timing:
    """Seconds per call over the blocks that count; `clean` of `blocks` were undisturbed."""

    median: float
    best: float
    worst: float
    clean: int
    blocks: int


def measure(candidates, rounds=5, seconds=1.0, warm=2, retries=3, clock="wall"):
    """Seconds per call of each candidate.

    Args:
        candidates: dict of name to function without arguments. It must not return before its
            work is done (fetch a number of the result).
        rounds: blocks per candidate.
        seconds: least length of a block; a block has at least one call.
        warm: calls before the clock starts (tracing, compiling).
        retries: how often a disturbed block is run again before the round goes on.
        clock: "wall", or "cpu" for seconds of processor time of all threads and children, which
            other processes change little: no block is disturbed then.

    Returns: dict of name to `Timing`. If no block of a candidate was undisturbed, all count.
    """
    for call in candidates.values():
        for _ in range(warm):
            call()
    blocks = {name: [] for name in candidates}
    for turn in range(rounds):
        names = list(candidates) if turn % 2 == 0 else list(candidates)[::-1]
        for name in names:
            for _ in range(1 + retries):
                blocks[name].append(_block(candidates[name], seconds, clock))
                if blocks[name][-1][1] <= DISTURBED:
                    break
    return {name: _summary(taken) for name, taken in blocks.items()}


def _block(call, seconds, clock):
    """Runs `call` for at least `seconds`: (seconds per call, share of the cores others used)."""
    busy, own, start, calls = _machine_seconds(), _own_seconds(), time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - start < seconds:
        call()
        calls += 1
    elapsed = time.perf_counter() - start
    if clock == "cpu":
        return (_own_seconds() - own) / calls, 0.0
    others = (_machine_seconds() - busy) - (_own_seconds() - own)
    return elapsed / calls, max(0.0, others) / (os.cpu_count() * elapsed)


def _summary(blocks):
    clean = [time_ for time_, others in blocks if others <= DISTURBED]
    kept = clean or [time_ for time_, _ in blocks]
    return Timing(statistics.median(kept), min(kept), max(kept), len(clean), len(blocks))


def _machine_seconds():
    """CPU seconds that all processes (and the host, as "steal") have used since boot."""
    try:
        with open("/proc/stat") as stat:
            fields = [int(field) for field in stat.readline().split()[1:9]]
    except FileNotFoundError:  # not Linux: nothing is known of others, every block counts
        return _own_seconds()
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")  # less idle, iowait


def _own_seconds():
    """CPU seconds of this process and of its children, those that still run too."""
    times, seconds = os.times(), 0.0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == os.getpid():
                seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds + times.user + times.system + times.children_user + times.children_system
