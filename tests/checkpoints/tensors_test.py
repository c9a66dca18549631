"""Readers of weight files, TensorFlow's among them: values, and what happens to damaged ones."""

import functools
import json
import pickle
import shutil
import struct
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import save_file

from tests.checkpoints.faults import drain, one_line, unreadable
from tests.fuzz.damage import MEBIBYTE, survives
from tests.support import golden
from tfnlp.checkpoints import open_tensors
from tfnlp.checkpoints.folders import find_weights

CHECKPOINT = "bert_model.ckpt"
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


def test_dtypes_and_parts_of_checkpoints(tmp_path):
    values = np.arange(-3, 3).reshape(2, 3)
    dtypes = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64")
    parts = [str(tmp_path / "part-0"), str(tmp_path / "part-1")]
    held = {f"x/{dtype}": tf.cast(values, dtype) for dtype in dtypes}
    more = {"scalar": tf.constant(2.5), "empty": tf.zeros([0, 4]), "x/Adam": tf.ones(3),
            "a/text": tf.constant(["some", "text"]), "global_step": tf.constant(3)}  # fmt: skip
    for part, tensors in zip(parts, (held, more), strict=True):
        tf.raw_ops.SaveV2(prefix=part, tensor_names=list(tensors), tensors=list(tensors.values()),
                          shape_and_slices=[""] * len(tensors))  # fmt: skip
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=str(tmp_path / "m"))
    tensors = open_tensors(tmp_path / "m")
    assert set(tensors) == {*held, "scalar", "empty", "a/text"}
    for dtype in dtypes:
        assert tensors.dtypes[f"x/{dtype}"] == dtype
        np.testing.assert_array_equal(tensors[f"x/{dtype}"], values)
    assert tensors["scalar"] == 2.5 and tensors["empty"].shape == (0, 4)
    with pytest.raises(ValueError, match="m holds string in 'a/text'; expected numbers"):
        tensors["a/text"]
    (tmp_path / "m.data-00001-of-00002").unlink()
    fails(tmp_path / "m", "m.index has no m.data-00001-of-00002 beside it", FileNotFoundError)
    (tmp_path / "m.data-00000-of-00002").unlink()
    fails(tmp_path / "m", "m.index has no m.data-00000-of-00001 beside it", FileNotFoundError)


def test_damaged_checkpoints(tmp_path):
    for source in golden("bert_google_tf_tiny").glob(f"{CHECKPOINT}.*"):
        shutil.copy(source, tmp_path)
    for ending in ("index", "data-00000-of-00001"):
        path = tmp_path / f"{CHECKPOINT}.{ending}"
        content = path.read_bytes()
        for kept in (0, len(content) // 2, -1):
            path.write_bytes(content[:kept])
            fails(tmp_path / CHECKPOINT, "truncated")
        path.write_bytes(content)
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    fails(
        tmp_path / CHECKPOINT, "in 'bert/embeddings/position_embeddings': .*Checksum does not match"
    )


def test_latest_checkpoint(tmp_path):
    """`checkpoint` holds a path, of which only the name counts."""
    for step in (1, 2):
        (tmp_path / f"m-{step}.index").write_bytes(b"")
    state = tmp_path / "checkpoint"
    for path in ("m-2", "/elsewhere/m-2", "../../m-2"):
        state.write_text(f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "m-1"\n')
        assert find_weights(tmp_path) == tmp_path / "m-2.index"
    for content in (b"", b"\xff\xfe", b'model_checkpoint_path: "m-3"', b"x" * 10**6, b"\0" * 99):
        state.write_bytes(content)
        with pytest.raises(ValueError, match="holds 2 weight files .*; give the path of one"):
            find_weights(tmp_path)
