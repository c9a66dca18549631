"""HDF5 files are read as h5py reads them; what leads out of a file or in circles is refused."""

import re
import struct

import h5py
import numpy as np
import pytest

from tests.support import golden
from tfnlp.convert.formats.hdf5_files import open_hdf5

DTYPES = ["<f2", "<f4", ">f4", "<f8", "i1", "<i2", ">i4", "<i8", "u1", "<u2", "<u4", ">u8"]


def fails(path, pattern):
    with pytest.raises(ValueError) as raised:
        tensors = open_hdf5(path)
        for name in tensors:
            tensors[name]
    message = str(raised.value)
    assert "\n" not in message and str(path) in message and len(message) < 1500
    assert re.search(pattern, message), message


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.hdf5"


def same_as_h5py(path):
    tensors, expected = open_hdf5(path), {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: expected.update({name: item[...]})
                        if isinstance(item, h5py.Dataset) else None)  # fmt: skip
    assert list(tensors) == sorted(expected)
    for name, array in expected.items():
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        assert tensors.shapes[name] == array.shape
        assert tensors[name].dtype.newbyteorder("=") == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(tensors[name], array)
    return tensors


def test_what_bilm_tf_wrote():
    assert len(same_as_h5py(golden("elmo_bilm_tf") / "lm_weights.hdf5")) == 33


def test_every_dtype_and_many_groups(path):
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for dtype in DTYPES:
            array = random.normal(0, 50, (3, 5)).astype(dtype)
            file.create_dataset(f"{dtype}/nested/deeply", data=array)
            file[f"{dtype}/nested"].attrs["note"] = "attributes are passed over"
        for i in range(300):  # more than fit into one node of a tree
            file[f"many/{i}"] = np.full(2, i, "f4")
        file["scalar"] = np.float32(2.5)
        for i in range(60):  # more than fit into the first header
            file["scalar"].attrs[f"key {i}"] = np.arange(9)
        file["soft"] = h5py.SoftLink("/scalar")
        file["kind"] = np.dtype("f4")  # a named type
    tensors = same_as_h5py(path)
    assert len(tensors) == len(DTYPES) + 301 and tensors["scalar"] == 2.5


def test_a_second_name_and_a_circle_are_passed_over(path):
    with h5py.File(path, "w") as file:
        file["a/x"] = np.ones(3)
        file["a/itself"] = file["a"]
        file["a/up"] = file["/"]
        file["b"] = file["a/x"]
    names = set(open_hdf5(path))
    assert len(names) == 1 and names <= {"a/x", "b"}


def test_what_is_no_number_is_listed_but_not_read(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("text", data=["ab"], dtype=h5py.string_dtype())
        file["pair"] = np.zeros(3, [("a", "i4"), ("b", "f8")])
        file["truth"] = np.array([True])
        file["thing"] = np.array([1.5, 2.5], "f4")
        file["long"] = np.zeros(2, np.complex64)
    tensors = open_hdf5(path)
    np.testing.assert_array_equal(tensors["thing"], [1.5, 2.5])
    for name in set(tensors) - {"thing"}:
        with pytest.raises(ValueError, match=f"x.hdf5 holds HDF5 class [0-9]+ in '{name}'; exp"):
            tensors[name]


@pytest.mark.parametrize(
    "options, data, pattern",
    [
        (dict(compression="gzip"), np.ones((4, 4)), "keeps 'x' in chunks, maybe compressed"),
        (dict(chunks=(2, 2)), np.ones((4, 4)), "keeps 'x' in chunks, maybe compressed"),
        (dict(shape=(4,), maxshape=(None,), dtype="f4"), None, "in chunks"),
        (dict(shape=(10**6,) * 3, dtype="f4", fillvalue=1), None, "holds no data of its own"),
        (dict(shape=(3,), dtype="f4"), None, r"holds no data of its own for 1 datasets \(x\)"),
        (dict(dtype="f4"), h5py.Empty("f4"), "holds no data of its own"),
        (dict(external="raw", shape=(3,), dtype="f4"), None, "holds no data of its own"),
    ],
)
def test_datasets_that_do_not_lie_in_one_piece(path, options, data, pattern):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, **options)
    fails(path, pattern)


def test_newer_formats_and_virtual_datasets(path):
    with h5py.File(path, "w", libver="latest") as file:
        file["x"] = np.ones(3)
    fails(path, "is of a newer HDF5 format, which is not read; copy its datasets")
    with h5py.File(path, "w", track_order=True) as file:
        file["x"] = np.ones(3)
    fails(path, "newer HDF5 format")
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((3,), "f4")
        layout[:] = h5py.VirtualSource(str(path.with_name("other.hdf5")), "x", (3,))
        file.create_virtual_dataset("x", layout)
    fails(path, "keeps 'x' in a way that HDF5 1.6 has not|newer HDF5 format")
    with h5py.File(path, "w") as file:
        file["a"] = h5py.ExternalLink(str(path.with_name("other.hdf5")), "x")
    fails(path, "links to other files")


def put(path, at, form, *values):
    content = bytearray(path.read_bytes())
    struct.pack_into(form, content, at, *values)
    path.write_bytes(content)


def test_forged_places(path):
    with h5py.File(path, "w") as file:
        file["g/x"] = np.arange(6, dtype="f4").reshape(2, 3)
    whole = path.read_bytes()
    begin = whole.index(np.arange(6, dtype="f4").tobytes())
    layout = whole.index(struct.pack("<BBQQ", 3, 1, begin, 24))
    shape = whole.index(struct.pack("<QQ", 2, 3))
    leaf, heap, tree = (whole.index(word) for word in (b"SNOD", b"HEAP", b"TREE"))
    names = struct.unpack_from("<Q", whole, heap + 24)[0]
    for at, form, values, pattern in [
        (layout + 2, "<Q", [2**63], "'g/x' of shape .* has 24 bytes from byte 9223372036854775808"),
        (layout + 2, "<Q", [len(whole) - 8], "has 24 bytes from byte"),
        (layout + 2, "<Q", [2**64 - 1], "holds no data of its own"),
        (layout + 10, "<Q", [2**40], "has 1099511627776 bytes"),
        (layout, "B", [4], "in a way that HDF5 1.6 has not"),
        (shape, "<QQ", [2**62, 2**62], "of shape .4611686018427387904, 4611686018427387904. has"),
        (shape, "<QQ", [3, 3], r"of shape \(3, 3\) has 24 bytes"),
        (shape - 8, "<BB", [1, 255], "struct.error|error: unpack|of shape"),
        (leaf + 6, "<H", [65535], "lead in circles|no name|object of version|beyond|TREE|error"),
        (leaf + 8, "<Q", [2**60], "is no name of a link"),
        (leaf + 16, "<Q", [2**64 - 1], "error: unpack requires"),
        (tree + 6, "<H", [65535], "lead in circles|error"),
        (tree + 4, "BB", [0, 1], "is no TREE"),
        (tree + 4, "BB", [1, 0], "is a tree of kind 1"),
        (tree, "4s", [b"tree"], "is no TREE"),
        (heap + 24, "<Q", [2**64 - 1], "is no name"),
        (names + 8, "<8s", [b"\xff" * 8], "UnicodeDecodeError|is no name"),
        (13, "BB", [4, 4], "addresses have 4 and 4 bytes"),
        (8, "B", [2], "newer HDF5 format"),
        (24, "<Q", [512], "was truncated"),
        (40, "<Q", [len(whole) + 1], r"was truncated"),
        (64, "<Q", [2**64 - 1], "error: unpack requires"),
    ]:
        path.write_bytes(whole)
        put(path, at, form, *values)
        fails(path, pattern)


def test_a_tree_that_is_its_own_child(path):
    with h5py.File(path, "w") as file:
        file["x"] = np.ones(3)
    tree = path.read_bytes().index(b"TREE")
    put(path, tree + 5, "B", 1)  # no leaf but a level above leaves
    put(path, tree + 32, "<Q", tree)
    fails(path, "its groups lead in circles")


def test_groups_in_each_other(path):
    with h5py.File(path, "w") as file:
        file["/".join("abc" * 20)] = np.ones(3)
    fails(path, "more than 32 groups in each other")
