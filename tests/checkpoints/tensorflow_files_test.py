"""TensorFlow's checkpoints: dtypes, shards, and files that are truncated or damaged."""

import functools
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.checkpoints.faults import unreadable
from tests.support import golden
from tfnlp.checkpoints import open_tensors
from tfnlp.checkpoints.folders import find_weights

NAME = "bert_model.ckpt"
fails = functools.partial(unreadable, open_tensors)


def test_dtypes_and_shards(tmp_path):
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


def test_damaged_files(tmp_path):
    for source in golden("bert_google_tf_tiny").glob(f"{NAME}.*"):
        shutil.copy(source, tmp_path)
    for ending in ("index", "data-00000-of-00001"):
        path = tmp_path / f"{NAME}.{ending}"
        content = path.read_bytes()
        for kept in (0, len(content) // 2, -1):
            path.write_bytes(content[:kept])
            fails(tmp_path / NAME, "truncated")
        path.write_bytes(content)
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    fails(tmp_path / NAME, "in 'bert/embeddings/position_embeddings': .*Checksum does not match")


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
