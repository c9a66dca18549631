"""Topologies: their replicas, and errors for invalid ones."""

import pytest

from tfnlp.plan.chips import CHIPS, parse_topology


@pytest.mark.parametrize(
    "text, replicas",
    [("v5e:2x4", 8), ("v5e:1x1", 1), ("v6e:16x16", 256), ("v4:2x2x1", 4), ("v3:2x2", 8)],
)
def test_replicas(text, replicas):
    topology = parse_topology(text)
    assert topology.devices == replicas and str(topology) == text
    assert CHIPS["v5e"].ridge == pytest.approx(197e3 / 819)


@pytest.mark.parametrize(
    "text, message",
    [
        ("v5e", "is not CHIP:SHAPE"),
        ("v5e-8", "is not CHIP:SHAPE"),
        ("v9:2x2", "no chip is called v9; choose one of v2, v3, v4, v5e, v5p, v6e"),
        ("v5e:2x2x1", "have 2 dimensions"),
        ("v4:2x2", "have 3 dimensions, each 1 or more; give for example v4:2x2x1"),
        ("v5e:0x4", "each 1 or more"),
    ],
)
def test_errors(text, message):
    with pytest.raises(ValueError, match=message) as error:
        parse_topology(text)
    assert text in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("chip, megahertz", [("v2", 700), ("v3", 940), ("v4", 1050)])
def test_clocks_are_the_published_ones(chip, megahertz):
    """The published ones, in MHz."""
    assert CHIPS[chip].clock == pytest.approx(1e6 * megahertz, rel=0.01)


def test_chips_and_replicas():
    topology = parse_topology("v3:2x2")  # two cores a chip
    assert (topology.chips, topology.devices) == (4, 8)
    assert parse_topology("v5p:2x2x2").chips == 8
