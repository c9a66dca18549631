"""Damaged files of every format; `python -m benchmarks.damaged_files` reads thousands of them."""

import pytest

from benchmarks.damaged_files import MEMORY, SECONDS, measure
from tests.fuzz.formats import NAMES


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_only_documented_errors(name):
    result = measure(name, 300)
    counts = result.counts
    assert counts.total() == 300
    if "TensorFlow" not in name:  # whose own reader can end the process
        assert not result.errors and counts["read"]
        assert counts["refused"] or name == "README.md"  # which is text, whatever it holds
    assert not counts["not finite"] and not counts["hangs"]
    assert result.seconds < SECONDS and result.memory < MEMORY
