"""Damaged and forged files: an error in one line, or an answer, and nothing else."""

import contextlib
import json
import shutil

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow.core.protobuf import saved_model_pb2

from tests.hub.inspection_modules import list_module
from tfnlp import hub

COUNT = dict(max_examples=120, deadline=None, derandomize=True, database=None)
NUMBERS = [0, 1, 2, 3, 7, 20, 101, 2**31 - 1, -1, -(2**31)]
STRINGS = ["", "training", "a b", "\x1b[31m", "class", "0", "x" * 300]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a module, and its files' bytes by name."""
    folder = tmp_path_factory.mktemp("fuzz") / "module"
    tf.saved_model.save(list_module(), folder)
    assert hub.inspect(folder).interface == "callable"
    names = ("saved_model.pb", "variables/variables.index")
    return folder, {name: (folder / name).read_bytes() for name in names}


def look(folder):
    """Whether it could be read; if so, all that is made of it is well formed."""
    try:
        found = hub.inspect(folder)
    except (ValueError, OSError) as error:
        assert str(error) and "\n" not in str(error)
        return False
    assert str(found).replace("\n", "").isprintable()
    json.dumps(found.to_dict())
    compile(found.usage or "", "usage", "exec")
    return True


@st.composite
def changes(draw):
    """Where in a file (from 0 to 1), and what is done there."""
    place = draw(st.floats(0, 1, exclude_max=True))
    kind = draw(st.sampled_from(["flip", "set", "set", "delete", "insert", "cut"]))
    return place, kind, draw(st.binary(min_size=1, max_size=6))


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index"])
def test_changed_bytes(whole, name):
    folder, files = whole

    @settings(**COUNT)
    @given(st.lists(changes(), min_size=1, max_size=4))
    def check(edits):
        data = bytearray(files[name])
        for place, kind, value in edits:
            i = int(place * len(data))
            if kind == "flip" and data:
                data[i] ^= 1 << value[0] % 8
            elif kind in ("set", "insert"):
                data[i : i + len(value) * (kind == "set")] = value
            else:
                del data[i : i + len(value) if kind == "delete" else None]
        (folder / name).write_bytes(data)
        look(folder)

    try:
        check()
    finally:
        (folder / name).write_bytes(files[name])


def test_every_cut_is_noticed(whole, tmp_path):
    folder, files = whole
    shutil.copytree(folder, tmp_path / "module")
    for name, data in files.items():
        for size in range(0, len(data), 1 + len(data) // 60):
            (tmp_path / "module" / name).write_bytes(data[:size])
            assert not look(tmp_path / "module"), (name, size)
        (tmp_path / "module" / name).write_bytes(data)
    assert look(tmp_path / "module")


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


def test_forged_fields(whole):
    folder, files = whole
    data = files["saved_model.pb"]
    count = len(list(fields(_objects(saved_model_pb2.SavedModel.FromString(data)))))
    edit = st.tuples(
        st.integers(0, count - 1), st.sampled_from(NUMBERS), st.sampled_from(STRINGS)
    )
    read = []

    @settings(**{**COUNT, "max_examples": 200})
    @given(st.lists(edit, min_size=1, max_size=3))
    def check(edits):
        saved = saved_model_pb2.SavedModel.FromString(data)
        for place, number, string in edits:
            known = list(fields(_objects(saved)))
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
