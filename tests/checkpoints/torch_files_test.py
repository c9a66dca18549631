"""PyTorch's files are read without torch, and nothing that they name is ever called."""

import functools
import json
import pickle
import sys
import zipfile

import numpy as np
import pytest

from tests.checkpoints import torch_writer as writer
from tests.checkpoints.faults import unreadable
from tests.checkpoints.torch_writer import Described
from tests.support import golden
from tfnlp.checkpoints import open_tensors

FLOATS = np.arange(24, dtype=np.float32).reshape(4, 6)
DATA = {"0": FLOATS.tobytes()}
fails = functools.partial(unreadable, open_tensors)
PLAIN = Described("0", "FloatStorage", 24, 0, (4, 6), (6, 1))


@pytest.fixture
def save(tmp_path):
    def save(content, name="x.bin"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return save


@pytest.mark.parametrize("file", ["state.bin", "legacy.bin", "protocol4.bin"])
def test_what_torch_saved(monkeypatch, file):
    """Files that torch 2.13 wrote: of every dtype, transposed, cut out, expanded."""
    monkeypatch.setitem(sys.modules, "torch", None)  # makes `import torch` fail
    tensors = open_tensors(golden("torch_files") / file)
    small = np.arange(3)
    expected = {
        "a": FLOATS, "transposed": FLOATS.T, "part": FLOATS[1:3, 2:], "half": FLOATS,
        "brain": FLOATS, "double": FLOATS, "parameter": FLOATS + 1,
        "scalar": np.float32(3.5), "empty": np.zeros((0, 3), np.float32),
        "expanded": np.ones((4, 3), np.float32), "bool": np.array([True, False]),
        "int64": np.arange(5), "int32": small.astype(np.int32), "int16": small.astype(np.int16),
        "int8": small.astype(np.int8), "uint8": small.astype(np.uint8),
    }  # fmt: skip
    assert list(tensors) != [] and set(tensors) == set(expected)
    for name, array in expected.items():
        assert tensors[name].dtype == array.dtype and tensors.shapes[name] == array.shape
        np.testing.assert_array_equal(tensors[name], array)
    assert tensors.dtypes["brain"] == "bfloat16" and tensors.dtypes["half"] == "float16"


def test_shards(tmp_path):
    arrays = {"a": FLOATS, "b": FLOATS[0]}
    index, places = tmp_path / "pytorch_model.bin.index.json", {n: f"{n}.bin" for n in arrays}
    for name, array in arrays.items():
        (tmp_path / f"{name}.bin").write_bytes(writer.saved({name: array}))
    index.write_text(json.dumps({"weight_map": places}))
    tensors = open_tensors(index)
    assert all((tensors[name] == array).all() for name, array in arrays.items())
    index.write_text(json.dumps({"weight_map": {**places, "more": "x.safetensors"}}))
    fails(index, "names the shard .*; expected a .bin file beside the index")


class Call:
    """Pickled, it is a call of any function."""

    def __init__(self, function, *arguments):
        self._call = function, arguments

    def __reduce__(self):
        return self._call


@pytest.mark.parametrize(
    "container, protocol",
    [("zip", 2), ("zip", 4), ("legacy", 0), ("legacy", 2), ("bare", 1), ("bare", 4)],
)
def test_pickles_that_call_something_are_not_followed(save, tmp_path, container, protocol):
    import os

    flag = tmp_path / "flag"
    calls = [
        Call(os.system, f"touch {flag}"),
        Call(eval, f"open({str(flag)!r}, 'w')"),
        {"a": Call(getattr, "abc", "upper"), "b": Call(os.mkdir, str(flag))},
    ]
    for call in calls:
        content = pickle.dumps(call, protocol)
        if container == "zip":
            content = writer.zipped(content, DATA)
        elif container == "legacy":
            content = writer.legacy(content, DATA, {"0": 24})
        path = save(content)
        fails(path, "calls for '(posix|builtins|__builtin__)|with the instruction|truncated")
        assert not flag.exists()
    pickle.loads(pickle.dumps(calls[0], protocol))
    assert flag.exists()  # so the pickles above would have done something


@pytest.mark.slow
@pytest.mark.parametrize(
    "content, pattern",
    [
        (b"cos\nsystem\n(S'x'\ntR.", "calls for 'os.system', which .* nothing of it was run"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.", "calls for 'os.system'"),
        (b"(S'x'\nios\nsystem\n.", "instruction (INST|STRING)"),
        (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "instruction NEWOBJ"),
        (b"\x80\x02ccollections\nOrderedDict\n(]tR.", "calls collections.OrderedDict with 1 arg"),
        (b"\x80\x02]K\x01K\x02s.", "a list in place of a dict"),
        (b"\x80\x02}(X\x01\x00\x00\x00au.", "truncated"),
        (b"\x80\x02}.", "holds a dict that is not a flat dict"),
        (b"\x80\x02)" + b"\x85" * 100_000 + b".", "holds a tuple"),
    ],
)
def test_other_pickles(save, content, pattern):
    fails(save(writer.zipped(content, DATA)), pattern)


@pytest.mark.parametrize(
    "change, pattern",
    [
        (dict(count=25), "storage '0' has 96 bytes, needs 100"),
        (dict(count=2**80), "in place of a number"),
        (dict(key="1"), "KeyError"),
        (dict(offset=1), "'a' reaches beyond the end of its storage"),
        (dict(offset=-1), "-1 in place of a number"),
        (dict(strides=(2**62, 1)), "'a' reaches beyond"),
        (dict(shape=(2**62,) * 20_000, strides=(0,) * 20_000), "axes"),
        (dict(shape=(10**5, 10**5), strides=(0, 0)), "lists tensors of 40000000000, which is not"),
    ],
)
def test_tensors_that_lie_nowhere(save, change, pattern):
    described = PLAIN._replace(**change)
    fails(save(writer.zipped(writer.state({"a": described}), DATA)), pattern)


def test_axes_of_one_may_have_any_stride(save):
    described = PLAIN._replace(shape=(1, 24), strides=(2**62, 1))
    path = save(writer.zipped(writer.state({"a": described}), DATA))
    np.testing.assert_array_equal(open_tensors(path)["a"], FLOATS.reshape(1, 24))


def test_two_views_of_a_storage_that_disagree(save):
    other = PLAIN._replace(kind="LongStorage", count=12, shape=(12,), strides=(1,))
    pickled = writer.state({"a": PLAIN, "b": other})
    fails(save(writer.zipped(pickled, DATA)), "two kinds of storage '0'")


def test_damaged_zip_files(save):
    whole = writer.saved({"a": FLOATS, "b": FLOATS[0]})
    path = save(whole)
    np.testing.assert_array_equal(open_tensors(path)["b"], FLOATS[0])
    at = whole.index(FLOATS.tobytes())
    fails(save(whole[:at] + b"\1" + whole[at + 1 :]), "numbers of 'a' do not match their checksum")
    at = whole.index(b"_rebuild")
    fails(save(whole[:at] + b"x" + whole[at + 1 :]), "data.pkl' does not match its checksum")
    pickled = writer.state({"a": PLAIN})
    fails(save(writer.zipped(pickled, DATA, zipfile.ZIP_DEFLATED)), "is compressed")
    fails(save(writer.zipped(pickled, {**DATA, "../data.pkl": b""})), "holds 2 files data.pkl")
    fails(save(writer.zipped(b"x" * (1 << 19) + b"y", DATA)), "longer than 524288 bytes")
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "w") as archive:
        for _ in range(2):
            archive.writestr("archive/data.pkl", pickled)
    fails(path, "'archive/data.pkl' is in it twice")


def test_damaged_older_files(save):
    pickled, counts = writer.state({"a": PLAIN}), {"0": 24}
    whole = writer.legacy(pickled, DATA, counts)
    np.testing.assert_array_equal(open_tensors(save(whole))["a"], FLOATS)
    fails(save(whole + b"\0"), "its storages end at")
    fails(save(writer.legacy(pickled, DATA, {"0": 2**62})), "has 4611686018427387904 numbers")
    fails(save(writer.legacy(pickled, {"1": b""}, {"1": 0})), "KeyError")
    fails(save(writer.legacy(pickled, {}, {})), "its storages end at")
    fails(save(whole.replace(b"\x88s", b"\x89s").replace(b"\x88u", b"\x89u")), "not little-endian")


def test_a_whole_module_is_refused():
    path = golden("torch_files") / "module.bin"
    fails(path, "calls for 'torch.nn.modules.linear.Linear'.*`state_dict")
