"""Handles of `hub.inspect`, other formats, and forged graphs."""

import shutil

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

from tests.hub.inspection_modules import list_module, message
from tfnlp import hub


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


def test_a_run_is_no_module(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "config.json").write_text("{}")
    assert "but a run; write one with `tfnlp export`" in message(tmp_path)
