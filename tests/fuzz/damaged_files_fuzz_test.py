"""Damaged files of every format; `python -m benchmarks.damaged_files` reads thousands of them."""

import numpy as np
import pytest

from benchmarks.damaged_files import MEMORY, SECONDS, measure, outcome
from tests.fuzz.formats import NAMES, Format


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_only_documented_errors(name):
    result = measure(name, 300)
    counts = result.counts
    assert counts.total() == 300
    if "TensorFlow" not in name:  # whose own reader can end the process
        assert not result.errors and counts["refused"] and counts["read"]
    assert not counts["not finite"] and not counts["hangs"]
    assert result.seconds < SECONDS and result.memory < MEMORY


def test_what_is_not_allowed_is_counted(tmp_path):
    def found(read):
        return outcome(Format("x", {}, {}, read), tmp_path)[0]

    def refused(message):
        def read(folder):
            raise ValueError(message.format(folder))

        return read

    def missing(folder):
        raise KeyError(str(folder))

    assert found(lambda folder: [np.ones(2), np.ones(2, int)]) == "read"
    assert found(lambda folder: [np.array([1, np.inf])]) == "not finite"
    assert found(refused("{} is damaged")) == "refused"
    for read in (missing, refused("no name"), refused("{} has\nlines"), refused("{}" + "x" * 5000)):
        assert found(read) == "other errors"
