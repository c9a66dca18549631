"""Readers of weight files: values, and what happens to damaged ones."""

import functools
import json
import pickle
import struct
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.checkpoints.faults import drain, one_line, unreadable
from tests.fuzz.damage import MEBIBYTE, survives
from tfnlp.checkpoints import open_tensors

fails = functools.partial(unreadable, open_tensors)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_safetensors_floats_become_float32(tmp_path, dtype):
    array = np.random.default_rng(0).normal(size=(3, 5)).astype(dtype)
    save_file({"x": array, "ids": np.arange(4)}, tmp_path / "a.safetensors")
    tensors = open_tensors(tmp_path / "a.safetensors")
    assert tensors["x"].dtype == np.float32 and tensors.shapes["x"] == (3, 5)
    np.testing.assert_array_equal(tensors["x"], array.astype(np.float32))
    assert tensors["ids"].dtype == np.int64


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    array = np.random.default_rng(0).normal(size=(3, 5)).astype(">f4")
    save(tmp_path / "a.npz", **{"a/b.c": array, "half": array.astype(np.float16)})
    tensors = open_tensors(tmp_path / "a.npz")
    assert set(tensors) == {"a/b.c", "half"}
    np.testing.assert_array_equal(tensors["a/b.c"], array.astype(np.float32))
    assert tensors["half"].dtype == np.float32


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_numbers_that_are_not_finite(tmp_path, value):
    """What is not read may hold anything."""
    bad = np.zeros([3, 5], np.float32)
    bad[1, 2] = bad[2, 4] = value
    arrays = {"bad": bad, "good": np.ones(3, np.float32)}
    halves = {name: array.astype(ml_dtypes.bfloat16) for name, array in arrays.items()}
    save_file(arrays, tmp_path / "x.safetensors")
    save_file(halves, tmp_path / "half.safetensors")
    np.savez(tmp_path / "large.npz", **arrays | {"bad": np.full(2, np.copysign(1e300, value))})
    for name, place in (("x.safetensors", "1, 2"), ("half.safetensors", "1, 2"), ("large.npz", 0)):
        tensors = open_tensors(tmp_path / name)
        pattern = rf"{name} has (nan|-?inf) at \[{place}\] of 'bad', the first of . values"
        one_line(pattern, ValueError, tensors.__getitem__, "bad")
        assert (tensors["good"] == 1).all()


class Bomb:
    """Unpickling it would raise, so a test that passes has not unpickled it."""

    def __reduce__(self):
        return (sys.exit, ("unpickled",))


def test_pickles_are_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([Bomb()], dtype=object))
    fails(tmp_path / "a.npz", "holds pickled objects")
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Bomb()))
    fails(tmp_path / "b.npz", "truncated, corrupt")
    (tmp_path / "c.bin").write_bytes(pickle.dumps(Bomb()))
    fails(tmp_path / "c.bin", "c.bin")
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("x.npy", pickle.dumps(Bomb()))
    fails(tmp_path / "d.npz", "truncated, corrupt")


def test_absent_files(tmp_path):
    for name in ("a.safetensors", "a.ckpt", "a.safetensors.index.json"):
        fails(tmp_path / name, "a", FileNotFoundError)


def test_npz_that_claims_more_than_it_holds(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(4, np.float32))
    content = (tmp_path / "x.npy").read_bytes()
    forged = content.replace(b"(4,)", b"(10000000000000,)")
    header = struct.unpack("<H", content[8:10])[0]
    forged = forged[: 10 + header - 1].rstrip() + b"\n" + content[10 + header :]
    forged = forged[:8] + struct.pack("<H", len(forged) - 10 - 16) + forged[10:]
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", forged)
    fails(tmp_path / "a.npz", r"needs 400000000000\d\d")


def test_a_small_npz_cannot_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros(25 * MEBIBYTE, np.float32))
    assert path.stat().st_size < MEBIBYTE // 8
    assert not survives(lambda: drain(open_tensors, path), path)
    np.savez_compressed(path, x=np.zeros(1000, np.float32))
    assert survives(lambda: drain(open_tensors, path), path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_damaged_shard_index(tmp_path, text):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    pattern = "is not an index of shards|names the shard|is not a JSON file|holds a JSON list"
    fails(path, pattern)


def test_shard_index_that_lists_absent_tensors(tmp_path):
    save_file({"a": np.zeros(2)}, tmp_path / "s.safetensors")
    path = tmp_path / "model.safetensors.index.json"
    places = {"a": "s.safetensors", "b": "s.safetensors"}
    path.write_text(json.dumps({"weight_map": places}))
    fails(path, "lists 1 tensors that are not in their shards, the first is 'b'")
