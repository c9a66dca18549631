"""TensorFlow's checkpoints are read as TensorFlow reads them, and better where they are forged."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.convert import bundle_writer as writer
from tests.support import golden
from tfnlp.convert import open_tensors
from tfnlp.convert.formats.crc32c import crc32c, masked_crc32c
from tfnlp.convert.formats.folders import find_weights

PREFIX = golden("bert_google_tf_tiny") / "bert_model.ckpt"
NAME = b"bert/embeddings/word_embeddings"  # float32 [15, 8]


@pytest.fixture
def forge(tmp_path):
    """Writes the fixture with an index that is made of other entries."""
    found = writer.entries(PREFIX.with_name(f"{PREFIX.name}.index"))
    data = f"{PREFIX.name}.data-00000-of-00001"
    (tmp_path / "m.data-00000-of-00001").write_bytes(PREFIX.with_name(data).read_bytes())

    def forge(change=None, index=None):
        if index is None:
            writer.write(tmp_path / "m.index", change(dict(found)))
        else:
            (tmp_path / "m.index").write_bytes(index)
        return tmp_path / "m"

    return forge


def drain(path):
    tensors = open_tensors(path)
    return {name: tensors[name] for name in tensors}


def fails(path, pattern, error=ValueError):
    with pytest.raises(error) as raised:
        drain(path)
    message = str(raised.value)
    assert "\n" not in message and str(path) in message and len(message) < 1500
    assert re.search(pattern, message), message


@pytest.mark.parametrize(
    "data, expected",
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E),
     (b"123456789", 0xE3069283), (b"", 0)],
)  # fmt: skip
def test_checksums_of_rfc_3720(data, expected):
    assert crc32c(np.frombuffer(data, np.uint8)) == expected == writer.crc32c(data)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 15, 16, 17, 63, 1000, 4095, 4096, 4097, 70_001])
def test_checksums_of_any_length(size):
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    assert crc32c(data) == writer.crc32c(data.tobytes())
    assert masked_crc32c(data) == writer.masked(data.tobytes())
    data[size // 2] ^= 1
    assert crc32c(data) != writer.crc32c(data.tobytes()) ^ 1


def test_dtypes_and_shards_as_tensorflow_wrote_them(tmp_path):
    values = np.arange(-3, 3)
    arrays = {f"x/{dtype}": tf.cast(values.reshape(2, 3), dtype) for dtype in
              ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64")}
    more = {"x/uint8": tf.constant([7, 8], tf.uint8), "scalar": tf.constant(2.5),
            "empty": tf.zeros([0, 4]), "flag": tf.constant([True, False]),
            "a/text": tf.constant(["some", "text"]), "x/Adam": tf.ones(3)}  # fmt: skip
    parts = [str(tmp_path / "part-0"), str(tmp_path / "part-1")]
    for part, held in zip(parts, (arrays, more), strict=True):
        tf.raw_ops.SaveV2(prefix=part, tensor_names=list(held), tensors=list(held.values()),
                          shape_and_slices=[""] * len(held))  # fmt: skip
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=str(tmp_path / "m"))
    assert len(list(tmp_path.glob("m.data-*"))) == 2
    tensors, reader = open_tensors(tmp_path / "m"), tf.train.load_checkpoint(str(tmp_path / "m"))
    assert set(tensors) == set(reader.get_variable_to_shape_map()) - {"x/Adam"}
    for name in set(tensors) - {"a/text"}:
        expected = reader.get_tensor(name)
        assert list(tensors.shapes[name]) == reader.get_variable_to_shape_map()[name]
        assert tensors.dtypes[name] == expected.dtype.name
        np.testing.assert_array_equal(tensors[name], expected)
    with pytest.raises(ValueError, match="m holds dtype 7 in 'a/text'; expected numbers"):
        tensors["a/text"]
    (tmp_path / "m.data-00001-of-00002").unlink()
    fails(tmp_path / "m", "m.index has no m.data-00001-of-00002 beside it", FileNotFoundError)


def test_the_forger_can_also_write_a_good_index(forge):
    expected = drain(PREFIX)
    found = drain(forge(lambda entries: entries))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    "changes, pattern",
    [
        (dict(shape=[-15, -8]), r"has the shape \(-15, -8\)"),
        (dict(shape=[16, 8]), r"of shape \(16, 8\) takes 240 bytes"),
        (dict(shape=[2**62, 2**62]), "takes 240 bytes"),
        (dict(shape=[1] * 33), "has the shape"),
        (dict(shape=[2**62] * 50_000), "has the shape"),
        (dict(dtype=2), "takes 240 bytes"),
        (dict(dtype=7, shape=[2**40]), "is not plausible for weights"),
        (dict(dtype=7), "holds dtype 7 in"),
        (dict(dtype=0), "holds dtype 0 in"),
        (dict(size=-240), "lies nowhere"),
        (dict(size=2**62), "takes 4611686018427387904 bytes"),
        (dict(offset=-8), "lies nowhere"),
        (dict(offset=2**62), "has 8420 bytes, but m.index lists tensors up to"),
        (dict(offset=8), "numbers of 'bert/embeddings/word_embeddings' do not match"),
        (dict(shard_id=1), "lies nowhere"),
        (dict(shard_id=-1), "lies nowhere"),
        (dict(crc32c=1), "numbers of 'bert/embeddings/word_embeddings' do not match"),
    ],
)
def test_entries_that_make_no_sense(forge, changes, pattern):
    """With right checksums in the index. TensorFlow itself ends the process at some of these."""

    def change(entries):
        entries[NAME] = writer.entry(entries[NAME], **changes)
        return entries

    fails(forge(change), pattern)


def test_other_entries(forge):
    def with_entry(key, value):
        return lambda entries: dict(sorted({**entries, key: value}.items()))

    fails(forge(with_entry(NAME, b"\xff\xff")), "DecodeError")
    fails(forge(with_entry(NAME, b"")), "lists tensors|expected numbers|holds dtype 0")
    fails(forge(with_entry(b"", b"\x08\x02")), "m.index has no|has no m.data", FileNotFoundError)
    fails(forge(with_entry(b"", b"\x08\x01\x10\x01")), "not little-endian")
    fails(forge(lambda e: {k: v for k, v in e.items() if k}), r"KeyError: b''")
    sliced = b"\x08\x01\x12\x02\x12\x00\x3a\x00"
    fails(forge(with_entry(b"\x00\xff", sliced)), "stored in slices, which are not read")
    long = b"b" * 3000
    fails(forge(with_entry(long, b"")), "holds dtype 0 in 'b")


def test_indexes_that_make_no_sense(forge):
    good = [(0, b"", b"\x08\x01"), (0, b"x", b"")]
    handles = [(0, b"k", writer.varint(0) + writer.varint(len(writer.block(good))))]
    body = writer.closed(writer.block(good))
    cases = {
        "blocks overlap": writer.end(body, writer.block(handles * 2)),
        "blocks reach beyond": writer.end(body, writer.block([(0, b"k", b"\x00\xff\xff\x7f")])),
        "entry of it reaches": writer.table(writer.block([(9, b"x", b"")])),
        "lists b'x' twice": writer.table(writer.block([*good, good[1]])),
        "is compressed": writer.table(writer.block(good), kind=1),
        "not those of an index": b"x" * 100,
        # Each entry one byte longer than the one before: together, gigabytes.
        "keys are implausibly long": writer.table(
            writer.block([good[0], *((i, b"k", b"") for i in range(4000))])
        ),
        "reaches beyond its block": writer.table(writer.block([good[0], (0, b"k" * 5000, b"")])),
        # One number of many bytes.
        "IndexError|beyond": writer.table(b"\xff" * 30_000 + writer.block([])),
    }
    for pattern, index in cases.items():
        fails(forge(index=index), pattern)
    path = forge(index=b"")
    with open(path.with_name("m.index"), "wb") as file:
        file.truncate(1 << 40)
    fails(path, "has 1099511627776 bytes, more than 4194304; is it an index")


def test_where_the_latest_checkpoint_is_said_to_be(tmp_path):
    """`checkpoint` names a path, of which only the name counts."""
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
