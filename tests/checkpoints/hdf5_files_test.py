"""HDF5 files are read as h5py reads them; missing data and damage are named."""

import functools

import h5py
import numpy as np
import pytest

from tests.checkpoints import elmo_reference
from tests.checkpoints.faults import unreadable
from tests.support import golden
from tfnlp.checkpoints.formats.weight_files import open_hdf5

fails = functools.partial(unreadable, open_hdf5)
DTYPES = ["<f2", "<f4", ">f4", "<f8", "i1", "<i2", ">i4", "<i8", "u1", "<u2", "<u4", ">u8"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.hdf5"


def assert_same_as_h5py(path):
    tensors, expected = open_hdf5(path), elmo_reference.read(path)
    assert list(tensors) == sorted(expected)
    for name, array in expected.items():
        assert tensors.shapes[name] == array.shape
        np.testing.assert_array_equal(tensors[name], array)
    return tensors


def test_a_published_file():
    assert len(assert_same_as_h5py(golden("elmo_bilm_tf") / "lm_weights.hdf5")) == 33


def test_dtypes_and_groups(path):
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for dtype in DTYPES:
            array = random.integers(0, 50, (3, 5)).astype(dtype)
            file.create_dataset(f"{dtype}/nested/deeply", data=array)
        for i in range(300):  # more than fit into one node of a tree
            file[f"many/{i}"] = np.full(2, i, "f4")
        file["scalar"] = np.float32(2.5)
        file["scalar"].attrs["note"] = "attributes are ignored"
        file["empty"] = np.zeros((0, 4), "f4")
    tensors = assert_same_as_h5py(path)
    assert tensors["scalar"] == 2.5 and tensors.dtypes["scalar"] == "float32"
    assert tensors["<i2/nested/deeply"].dtype == np.int16


@pytest.mark.parametrize(
    "options",
    [
        dict(chunks=(7, 9)),
        dict(compression="gzip"),
        dict(chunks=(7, 9), compression="gzip", shuffle=True, fletcher32=True),
        dict(maxshape=(None, 40), chunks=(40, 40)),
    ],
)
def test_chunked_and_compressed_datasets(path, options):
    array = np.random.default_rng(1).normal(size=(40, 40)).astype("f4")
    with h5py.File(path, "w") as file:
        file.create_dataset("group/x", data=array, **options)
    np.testing.assert_array_equal(open_hdf5(path)["group/x"], array)


def test_newer_format(path):
    with h5py.File(path, "w", libver="latest") as file:
        file["x"] = np.ones(3)
    assert_same_as_h5py(path)
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=np.ones((4, 4)), chunks=(2, 2))
    fails(path, "is HDF5 of a kind that is not read .*; copy its datasets to a new file")


def test_text_is_listed_but_not_read(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("text", data=["ab"], dtype=h5py.string_dtype())
        file["number"] = np.ones(2, "f4")
    tensors = open_hdf5(path)
    np.testing.assert_array_equal(tensors["number"], [1, 1])
    with pytest.raises(ValueError, match="x.hdf5 holds HDF5 type object in 'text'; expected num"):
        tensors["text"]


@pytest.mark.parametrize(
    "options",
    [
        dict(shape=(3,), dtype="f4"),
        dict(shape=(10**6,) * 3, dtype="f4", fillvalue=1),
        dict(shape=(3,), dtype="f4", external="raw"),
    ],
)
def test_datasets_without_data_of_their_own(path, options):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", **options)
        # Filled in part.
        file.create_dataset("y", shape=(40, 4), chunks=(10, 4), dtype="f4")[:10] = 1
    fails(path, r"holds no data of its own for 2 datasets \('x', 'y'\)")


def test_virtual_datasets_and_circles(path):
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((3,), "f4")
        layout[:] = h5py.VirtualSource(str(path.with_name("other.hdf5")), "x", (3,))
        file.create_virtual_dataset("x", layout)
    fails(path, "is HDF5 of a kind that is not read")
    with h5py.File(path, "w") as file:
        file["a/x"] = np.ones(3)
        file["a/itself"], file["a/up"] = file["a"], file["/"]
    assert set(open_hdf5(path)) == {"a/x"}
