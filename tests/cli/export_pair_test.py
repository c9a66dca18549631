"""`tfnlp export` of a pair of modules: both appear, or none."""

import os
import time

import pytest
import tensorflow as tf

from tests.cli.command import error, tfnlp
from tests.cli.toy_tasks import backbone
from tests.support import start_python

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FIRST = {"bert": "encoder", "gpt": "model"}


@pytest.mark.parametrize("kind, others", [("bert", []), ("gpt", ["notes.txt"])])
def test_an_error_at_the_second_module_leaves_no_first(kind, others, tmp_path, monkeypatch, capsys):
    saved, really = [], tf.saved_model.save

    def save(module, path, **arguments):
        saved.append(path)
        if len(saved) == 1:
            really(module, path, **arguments)
        else:
            os.makedirs(path)
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", save)
    model, folder = backbone(kind, tmp_path), tmp_path / "pairs"
    folder.mkdir()
    for name in others:
        (folder / "pair").mkdir()
        (folder / "pair" / name).touch()
    assert tfnlp("export", "--model", model, "--output", folder / "pair", "--seq-length", 8) == 1
    assert f"{folder / 'pair'}" in (line := error(capsys)) and "free some space" in line
    assert "partial" not in line and len(saved) == 2
    assert os.listdir(folder / "pair" if others else folder) == others


@pytest.mark.parametrize("kind", FIRST)
def test_the_same_command_finishes_an_export_that_was_killed(kind, tmp_path, capsys):
    (tmp_path / "pairs").mkdir()
    command = ["export", "--model", backbone(kind, tmp_path), "--output", tmp_path / "pairs" / "m"]
    process = start_python("-m", "tfnlp", *command)
    # The first module is whole, below a folder of another name or in its place.
    while not list((tmp_path / "pairs").glob(f"*m/{FIRST[kind]}")):
        assert process.poll() is None
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not (tmp_path / "pairs" / "m").exists()
    assert tfnlp(*command) == 0
    assert os.listdir(tmp_path / "pairs") == ["m"]
    modules = sorted([FIRST[kind], "preprocessor"])
    assert sorted(os.listdir(tmp_path / "pairs" / "m")) == modules
    for name in modules:
        assert tf.saved_model.contains_saved_model(str(tmp_path / "pairs" / "m" / name))
    assert tfnlp(*command) == 1
    assert "exists; choose another folder, or --overwrite it" in error(capsys)
