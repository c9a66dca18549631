"""The search finds the largest batch with few compilations."""

import pytest

from tfnlp.plan.search import largest_batch, largest_fitting, power_of_two


@pytest.mark.parametrize("guess", [1, 4, 64, 1024])
@pytest.mark.parametrize("row, base", [(1, 100), (7, 100), (13, 900), (0.05, 10)])
def test_it_finds_the_largest_power_of_two(row, base, guess):
    usable, calls = 1000, []

    def needed(batch):
        calls.append(batch)
        size = base + row * batch + 0.2 * row * batch**0.5
        return size <= usable, size

    expected = max((2**n for n in range(20) if needed(2**n)[0]), default=0)
    calls.clear()
    assert largest_batch(needed, guess, fixed=base, usable=usable) == expected
    assert len(calls) == len(set(calls)) <= 4
    assert {expected, 2 * expected} <= set(calls)  # both sides of the limit were tried


def test_nothing_fits():
    calls = []

    def needed(batch):
        calls.append(batch)
        return False, 5000 + batch

    assert largest_batch(needed, 8, fixed=4990, usable=1000) == 0
    assert calls[-1] == 1


def test_a_size_that_does_not_grow():
    assert largest_batch(lambda b: (b <= 32, 10), 4, fixed=0, usable=1000) == 32


@pytest.mark.parametrize("number, power", [(0.3, 1), (1, 1), (3.9, 2), (4, 4), (1000, 512)])
def test_power_of_two(number, power):
    assert power_of_two(number) == power


@pytest.mark.parametrize("usable", [50, 105, 130, 290, 1000])
def test_it_finds_the_largest_of_some_sizes(usable):
    sizes, calls = [1, 2, 3, 4, 6, 8, 12, 16, 24], []

    def needed(rows):
        calls.append(rows)
        return 100 + 7 * rows <= usable, 100 + 7 * rows

    largest = max((n for n in sizes if 100 + 7 * n <= usable), default=0)
    assert largest_fitting(needed, sizes, 12, fixed=100, usable=usable) == largest
    assert len(calls) == len(set(calls)) <= 4


def test_no_sizes():
    assert largest_fitting(None, [], 1, fixed=0, usable=1) == 0
