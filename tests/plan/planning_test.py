"""Topologies: their replicas, and errors for invalid ones; the search for the largest batch."""

import pytest

from tfnlp.plan.chips import parse_topology
from tfnlp.plan.planning import POWERS, largest_fitting


@pytest.mark.parametrize(
    "text, chips, replicas",  # v3: two cores a chip
    [("v5e:2x4", 8, 8), ("v6e:16x16", 256, 256), ("v4:2x2x1", 4, 4), ("v3:2x2", 4, 8)],
)
def test_replicas(text, chips, replicas):
    topology = parse_topology(text)
    assert (topology.chips, topology.devices, str(topology)) == (chips, replicas, text)


@pytest.mark.parametrize("text", ["v5e", "v5e-8", "v9:2x2", "v5e:2x2x1", "v4:2x2", "v5e:0x4"])
def test_errors(text):
    with pytest.raises(ValueError, match=f"--topology {text}") as error:
        parse_topology(text)
    assert "\n" not in str(error.value)


def search(needed, sizes, guess, fixed, usable):
    """The largest that fits, and what was compiled."""
    calls = []

    def noted(batch):
        calls.append(batch)
        return needed(batch)

    found = largest_fitting(noted, sizes, guess, fixed, usable)
    assert len(calls) == len(set(calls)) <= 4
    return found, calls


@pytest.mark.parametrize("guess", [1, 64, 1024])
@pytest.mark.parametrize("row, base", [(1, 100), (7, 100), (13, 900), (0.05, 10)])
def test_it_finds_the_largest_power_of_two(row, base, guess):
    def needed(batch):
        size = base + row * batch + 0.2 * row * batch**0.5
        return size <= 1000, size

    expected = max((2**n for n in range(20) if needed(2**n)[0]), default=0)
    found, calls = search(needed, POWERS, guess, base, 1000)
    assert found == expected
    assert {expected, 2 * expected} <= set(calls)  # both sides of the limit were tried


@pytest.mark.parametrize("usable", [50, 105, 130, 290, 1000])
def test_it_finds_the_largest_of_some_sizes(usable):
    sizes = [1, 2, 3, 4, 6, 8, 12, 16, 24]
    largest = max((n for n in sizes if 100 + 7 * n <= usable), default=0)
    found, _ = search(lambda n: (100 + 7 * n <= usable, 100 + 7 * n), sizes, 12, 100, usable)
    assert found == largest


def test_edges():
    found, calls = search(lambda b: (False, 5000 + b), POWERS, 8, 4990, 1000)
    assert (found, calls[-1]) == (0, 1)  # nothing fits
    assert largest_fitting(lambda b: (b <= 32, 10), POWERS, 4, 0, 1000) == 32  # does not grow
    assert largest_fitting(None, [], 1, fixed=0, usable=1) == 0
