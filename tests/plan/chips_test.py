"""Topologies: their replicas, and errors for invalid ones."""

import pytest

from tfnlp.plan.chips import CHIPS, parse_topology


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


@pytest.mark.parametrize("chip, megahertz", [("v2", 700), ("v3", 940), ("v4", 1050)])
def test_clocks_are_the_published_ones(chip, megahertz):
    assert CHIPS[chip].clock == pytest.approx(1e6 * megahertz, rel=0.01)
    assert CHIPS["v5e"].ridge == pytest.approx(197e3 / 819)
