"""Weight files of torch whose tensors lie anywhere, and files that would fill the memory.

Damage to every format is in `damaged_files_fuzz_test.py`.
"""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.convert import torch_writer
from tests.fuzz.damage import MEBIBYTE, damaged, drain, settings, survives
from tfnlp.convert import open_tensors

ARRAYS = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.ones(3, np.float16),
    "ids": np.arange(4),
}


def npz(members, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.long
@settings
@given(st.data())
def test_damaged_pickles_in_a_whole_file_of_torch(folder, data):
    path = folder / "pickle.bin"
    described = {n: torch_writer.describe(i, a) for i, (n, a) in enumerate(ARRAYS.items())}
    pickled = data.draw(damaged(torch_writer.state(described)))
    storages = {str(i): array.tobytes() for i, array in enumerate(ARRAYS.values())}
    path.write_bytes(torch_writer.zipped(pickled, storages))
    survives(lambda: drain(open_tensors(path)), path)
    counts = {str(i): array.size for i, array in enumerate(ARRAYS.values())}
    path.write_bytes(torch_writer.legacy(pickled, storages, counts))
    survives(lambda: drain(open_tensors(path)), path)


_SIZES = st.one_of(st.integers(-2, 30), st.sampled_from([2**31, 2**62, 2**63, 10**30, True, "a"]))
_SHAPES = st.one_of(st.just((4, 6)), st.lists(_SIZES, max_size=4).map(tuple))
_WHOLE = torch_writer.Described("0", "FloatStorage", 24, 0, (4, 6), (6, 1))
_FIELDS = {
    "key": st.sampled_from(["1", "..", 0, None]),
    "kind": st.sampled_from(["HalfStorage", "BoolStorage", "_rebuild"]),
    "count": _SIZES,
    "offset": _SIZES,
    "shape": _SHAPES,
    "strides": _SHAPES,
}


@pytest.mark.long
@settings
@given(st.sets(st.sampled_from(sorted(_FIELDS)), max_size=2), st.data())
def test_tensors_of_torch_that_lie_anywhere(folder, fields, data):
    path = folder / "described.bin"
    described = _WHOLE._replace(**{field: data.draw(_FIELDS[field]) for field in fields})
    pickled = torch_writer.state({"a": described})
    path.write_bytes(torch_writer.zipped(pickled, {"0": bytes(96), "1": b""}))
    survives(lambda: drain(open_tensors(path)), path)


def bomb(size):
    """A `.npz` of an array of `size` zeros, compressed to a thousandth."""
    return npz({"x.npy": npy(np.zeros(size, np.float32))}, zipfile.ZIP_DEFLATED)


def test_a_small_file_cannot_fill_the_memory(folder):
    path = folder / "bomb.npz"
    path.write_bytes(bomb(25 * MEBIBYTE))
    assert path.stat().st_size < MEBIBYTE // 8
    assert not survives(lambda: drain(open_tensors(path)), path)
    path.write_bytes(bomb(1000))
    assert survives(lambda: drain(open_tensors(path)), path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy(np.zeros(10)))
    assert not survives(lambda: drain(open_tensors(path)), path)
