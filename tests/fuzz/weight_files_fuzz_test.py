"""Damaged weight files of every format: an error in one line, or numbers; never anything else."""

import io
import zipfile

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from tests.convert import torch_writer
from tests.fuzz.damage import MEBIBYTE, damaged, drain, settings, survives
from tests.support import golden
from tfnlp.convert import open_tensors
from tfnlp.convert.formats.hdf5_files import open_hdf5
from tfnlp.convert.gpt.openai_gpt1 import open_pieces

ARRAYS = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "half": np.ones(3, np.float16),
    "ids": np.arange(4),
}
PREFIX = golden("bert_google_tf_tiny") / "bert_model.ckpt"
INDEX = PREFIX.with_name(f"{PREFIX.name}.index").read_bytes()
DATA = PREFIX.with_name(f"{PREFIX.name}.data-00000-of-00001").read_bytes()


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


def hdf5():
    file = io.BytesIO()
    with h5py.File(file, "w") as written:
        for name, array in ARRAYS.items():
            written[f"group/{name}"] = array
        written["group"].attrs["note"] = "x"
    return file.getvalue()


MEMBERS = {f"{name}.npy": npy(array) for name, array in ARRAYS.items()}
FILES = {
    "x.npz": npz(MEMBERS),
    "deflated.npz": npz(MEMBERS, zipfile.ZIP_DEFLATED),
    "x.safetensors": save(ARRAYS),
    "x.bin": torch_writer.saved(ARRAYS),
    "legacy.bin": (golden("torch_files") / "legacy.bin").read_bytes(),
    "torch.bin": (golden("torch_files") / "state.bin").read_bytes(),
    "x.hdf5": hdf5(),
}


def read(path):
    drain((open_hdf5 if path.suffix == ".hdf5" else open_tensors)(path))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("name", FILES)
def test_the_whole_files_can_be_read(folder, name):
    (folder / name).write_bytes(FILES[name])
    assert survives(lambda: read(folder / name))


@pytest.mark.parametrize("name", FILES)
def test_damaged_bytes(folder, name):
    path = folder / name

    @settings
    @given(damaged(FILES[name]))
    def check(data):
        path.write_bytes(data)
        survives(lambda: read(path), path)

    check()


@settings
@given(st.sampled_from(sorted(MEMBERS)), st.data())
def test_damaged_members_of_a_whole_npz(folder, name, data):
    """With right checksums: what is wrong is the header of an array."""
    path = folder / "member.npz"
    path.write_bytes(npz({**MEMBERS, name: data.draw(damaged(MEMBERS[name]))}))
    survives(lambda: read(path), path)


@settings
@given(st.data())
def test_damaged_pickles_in_a_whole_file_of_torch(folder, data):
    path = folder / "pickle.bin"
    described = {n: torch_writer.describe(i, a) for i, (n, a) in enumerate(ARRAYS.items())}
    pickled = data.draw(damaged(torch_writer.state(described)))
    storages = {str(i): array.tobytes() for i, array in enumerate(ARRAYS.values())}
    path.write_bytes(torch_writer.zipped(pickled, storages))
    survives(lambda: read(path), path)
    counts = {str(i): array.size for i, array in enumerate(ARRAYS.values())}
    path.write_bytes(torch_writer.legacy(pickled, storages, counts))
    survives(lambda: read(path), path)


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


@settings
@given(st.sets(st.sampled_from(sorted(_FIELDS)), max_size=2), st.data())
def test_tensors_of_torch_that_lie_anywhere(folder, fields, data):
    path = folder / "described.bin"
    described = _WHOLE._replace(**{field: data.draw(_FIELDS[field]) for field in fields})
    pickled = torch_writer.state({"a": described})
    path.write_bytes(torch_writer.zipped(pickled, {"0": bytes(96), "1": b""}))
    survives(lambda: read(path), path)


@settings
@given(st.data())
def test_damaged_data_of_tensorflow(folder, data):
    """Not the index: TensorFlow's reader can end the process."""
    (folder / "m.index").write_bytes(INDEX)
    (folder / "m.data-00000-of-00001").write_bytes(data.draw(damaged(DATA)))
    survives(lambda: read(folder / "m"), folder / "m")


@settings
@given(st.sampled_from(["params_0.npy", "params_1.npy", "params_shapes.json"]), st.data())
def test_damaged_pieces_of_openais_gpt(tmp_path_factory, name, data):
    source, folder = golden("gpt1_openai_npy"), tmp_path_factory.getbasetemp() / "pieces"
    folder.mkdir(exist_ok=True)
    for file in source.glob("params_*"):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / name).write_bytes(data.draw(damaged((source / name).read_bytes())))
    survives(lambda: drain(open_pieces(folder)), folder)


def bomb(size):
    """A `.npz` of an array of `size` zeros, compressed to a thousandth."""
    return npz({"x.npy": npy(np.zeros(size, np.float32))}, zipfile.ZIP_DEFLATED)


def test_a_small_file_cannot_fill_the_memory(folder):
    path = folder / "bomb.npz"
    path.write_bytes(bomb(25 * MEBIBYTE))
    assert path.stat().st_size < MEBIBYTE // 8
    assert not survives(lambda: read(path), path)
    path.write_bytes(bomb(1000))
    assert survives(lambda: read(path), path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy(np.zeros(10)))
    assert not survives(lambda: read(path), path)
