import numpy as np
import pytest

from tfnlp.layers import SentenceBoundaries

BEGIN, END = [7, 8, 9], [7, 5, 9]
C = 3


def reference(ids):
    """Row by row, as lists; tokens count up to the last one whose first id is not 0."""
    found = []
    for row in ids.tolist():
        real = [t for t, token in enumerate(row) if token[0]]
        length = real[-1] + 1 if real else 0
        rest = [[0] * C] * (len(row) - length)
        found.append([BEGIN, *row[:length], END, *rest])
    return np.array(found, "int32")


def draw(lengths, time, seed=0):
    ids = np.random.default_rng(seed).integers(1, 7, (len(lengths), time, C)).astype("int32")
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = 0
    return ids


CASES = {
    "ragged": draw([4, 1, 2, 3], 4),
    "rows of zero words": draw([0, 2, 0], 3),
    "no places": np.zeros((3, 0, C), "int32"),
}


@pytest.mark.parametrize("ids", CASES.values(), ids=CASES)
def test_against_lists(ids):
    expected = reference(ids)
    got = SentenceBoundaries(BEGIN, END)(ids)
    assert got.dtype == "int32" and got.shape == (ids.shape[0], ids.shape[1] + 2, C)
    np.testing.assert_array_equal(got, expected)


def test_a_hole_is_kept_and_only_the_first_id_decides():
    ids = np.array([[[1, 2, 3], [0, 0, 0], [4, 0, 0], [0, 5, 5]]], "int32")
    expected = [BEGIN, [1, 2, 3], [0, 0, 0], [4, 0, 0], END, [0, 0, 0]]
    np.testing.assert_array_equal(SentenceBoundaries(BEGIN, END)(ids)[0], expected)
