"""What is there instead of a SavedModel."""

import pytest

from tests.hub.inspection_modules import message


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("model.keras", b"PK", "it is a Keras model: load it with keras.saving.load_model"),
        ("weights", b"\x89HDF\r\n\x1a\n", "it is a Keras model or its weights"),
        ("bert.ckpt.data-00000-of-00001", b"", "of a TensorFlow checkpoint: weights without a"),
        ("model.safetensors", b"", "it is weights without a graph; `tfnlp export` makes"),
        ("saved_model.pb", b"", "it is the graph of one; give its folder, "),
        ("notes.txt", b"", "neither the folder of a SavedModel nor an archive"),
    ],
)
def test_what_else_there_is(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert words in message(tmp_path / name)
    if name.endswith((".keras", ".safetensors")):
        assert f"it holds {name}, " in message(tmp_path)


def test_nothing_there(tmp_path):
    assert "does not exist" in message(tmp_path / "nothing")
    assert "is not a SavedModel" in message(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "config.json").write_text("{}")
    assert "the folder of a run; write a SavedModel with `tfnlp export`" in message(tmp_path)
