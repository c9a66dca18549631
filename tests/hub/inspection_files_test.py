"""Handles of `hub.inspect`, other formats, and forged graphs."""

import contextlib
import json
import shutil

import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.protobuf import saved_model_pb2

from tests.hub.checks_test import inspected
from tests.hub.inspection_modules import list_module, message
from tfnlp import hub

FUZZ = settings(max_examples=200, deadline=None, derandomize=True, database=None)
NUMBERS = [0, 1, 2, 3, 7, 20, 101, 2**31 - 1, -1, -(2**31)]
STRINGS = ["", "training", "a b", "\x1b[31m", "class", "0", "x" * 300]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspected") / "module"
    tf.saved_model.save(list_module(), folder)
    return folder


def test_handles(folder, tmp_path):
    want = hub.inspect(folder)
    shutil.make_archive(str(tmp_path / "list"), "gztar", folder)
    packed = hub.inspect(tmp_path / "list.tar.gz")
    space = {}
    exec(packed.usage, space)
    assert packed.functions == want.functions and space["outputs"][0].shape == (1, 3)
    for version in ("2", "10"):
        shutil.copytree(folder, tmp_path / "served" / version)
    (tmp_path / "served" / "11").mkdir()
    assert hub.inspect(tmp_path / "served").path == str(tmp_path / "served" / "10")
    binary = tmp_path / "served" / "10" / "saved_model.pb"
    graph = saved_model_pb2.SavedModel.FromString(binary.read_bytes())
    binary.with_suffix(".pbtxt").write_text(text_format.MessageToString(graph), encoding="utf-8")
    binary.unlink()
    assert hub.inspect(binary.parent).functions == want.functions
    for name in ("encoder", "preprocessor"):
        shutil.copytree(folder, tmp_path / "pair" / name)
    with pytest.raises(ValueError, match="pair holds 2 SavedModels"):
        hub.inspect(tmp_path / "pair")


def test_what_else_there_is(tmp_path):
    for name, content, words in (
        ("model.keras", b"PK", "a Keras model"),
        ("weights", b"\x89HDF\r\n\x1a\n", "a Keras model or its weights"),
        ("bert.ckpt.data-00000-of-00001", b"", "part of a TensorFlow checkpoint"),
        ("model.safetensors", b"", "weights without a graph"),
        ("saved_model.pb", b"", "it is the graph file of one"),
    ):
        (tmp_path / name).write_bytes(content)
        assert words in message(tmp_path / name)
        (tmp_path / name).unlink()
    assert "does not exist" in message(tmp_path / "nothing")
    assert "is not a SavedModel" in message(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert "it holds model.safetensors, " in message(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "config.json").write_text("{}")
    assert "it is a run folder" in message(tmp_path)


def look(folder):
    """Whether it could be read; if so, all that is made of it is well formed."""
    found = inspected(folder)
    if found is not None:
        json.dumps(found.to_dict())
    return found is not None


def fields(message):
    """(message, field) of all that is set in it, however deep."""
    for field, value in message.ListFields():
        yield message, field
        if hasattr(value, "ListFields"):
            parts = [value]
        elif field.message_type is None:
            parts = []
        else:
            entries = field.message_type.GetOptions().map_entry
            parts = [value[key] for key in sorted(value)] if entries else value
        for part in parts:
            if hasattr(part, "ListFields"):
                yield from fields(part)


def forge(message, field, number, string):
    """Changes one field; what neither a number nor a string goes into is cleared."""
    value = getattr(message, field.name)
    with contextlib.suppress(ValueError):  # a number that the field has no room for
        if isinstance(value, bool):
            setattr(message, field.name, not value)
        elif isinstance(value, int) and field.enum_type is None:
            setattr(message, field.name, number)
        elif isinstance(value, str):
            setattr(message, field.name, string)
        else:
            message.ClearField(field.name)


@pytest.mark.long
def test_forged_fields(folder):
    data = (folder / "saved_model.pb").read_bytes()
    count = len(list(fields(_objects(saved_model_pb2.SavedModel.FromString(data)))))
    edit = st.tuples(st.integers(0, count - 1), st.sampled_from(NUMBERS), st.sampled_from(STRINGS))
    read = []

    @FUZZ
    @given(st.lists(edit, min_size=1, max_size=3))
    def check(edits):
        saved = saved_model_pb2.SavedModel.FromString(data)
        for place, number, string in edits:
            known = list(fields(_objects(saved)))
            if known:  # an earlier edit may have emptied the graph
                forge(*known[place % len(known)], number, string)
        (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
        read.append(look(folder))

    try:
        check()
    finally:
        (folder / "saved_model.pb").write_bytes(data)
    assert {True, False} == set(read)  # some forgeries are none


def _objects(saved):
    return saved.meta_graphs[0].object_graph_def
