"""Damaged files of every format; `python -m benchmarks.damaged_files` reads thousands of them."""

import numpy as np
import pytest

from benchmarks.damaged_files import MEMORY, SECONDS, Result, measure, outcome, table
from benchmarks.damaged_formats import Format, formats

FORMATS = formats()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FORMATS)
def test_only_documented_errors(name):
    result = measure(name, 300)
    counts = result.counts
    if FORMATS[name].ours:
        assert not result.errors and counts.total() == 300 and counts["refused"]
        assert counts["read"]
    assert not counts["not finite"] and not counts["hang"]
    assert result.seconds < SECONDS and result.memory < MEMORY


def reading(read):
    return Format("x", {}, {}, read)


def test_what_is_not_allowed_is_counted(tmp_path):
    def missing(folder):
        raise KeyError(str(folder))

    def refused(message):
        def read(folder):
            raise ValueError(message.format(folder))

        return reading(read)

    assert outcome(reading(lambda folder: [np.ones(2), np.ones(2, int)]), tmp_path)[0] == "read"
    assert outcome(reading(lambda folder: [np.array([1, np.inf])]), tmp_path)[0] == "not finite"
    assert outcome(refused("{} is damaged"), tmp_path)[0] == "refused"
    for form in (reading(missing), refused("no name"), refused("{} has\nlines")):
        assert outcome(form, tmp_path)[0] == "other"
    assert outcome(refused("{}" + "x" * 5000), tmp_path)[0] == "other"
    result = Result("x", True)
    result.counts.update(read=9000, refused=999, crash=1)
    assert "| x | 10,000 | 9,000 | 999 | 0 | 1 | 0 | 0 |" in table([result])
