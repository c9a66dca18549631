"""Files of a run or an exported module that were changed: no command goes on with them."""

import json
import pathlib
import shutil

import pytest
import tensorflow as tf

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.runs.conftest import ROWS
from tfnlp import hub
from tfnlp.hub.loading.checks import RECORD
from tfnlp.training import Checkpoints

pytestmark = pytest.mark.slow

CHANGED = "vocab.txt was changed: its SHA-256 is not the one in .*config.json"


@pytest.fixture
def runs(run, task, tmp_path):
    """Copies of a pretraining run and of one of fine-tuning."""
    shutil.copytree(run.path, tmp_path / "bert")
    shutil.copytree(task.path, tmp_path / "task")
    return tmp_path


def swap_lines(path: pathlib.Path) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[-3], lines[-2] = lines[-2], lines[-3]
    path.write_text("\n".join(lines), encoding="utf-8")


def test_swapped_lines_of_a_vocabulary_stop_every_command(runs, text, capsys):
    for name in ("bert", "task"):
        (runs / name / "notes.txt").write_text("added by a user")
        assert tfnlp.load(runs / name).path == str(runs / name)
        swap_lines(runs / name / "vocab.txt")
        with pytest.raises(ValueError, match=CHANGED):
            tfnlp.load(runs / name)
    rows = runs / "rows.tsv"
    rows.write_text("".join(f"{a}\t{b}\n" for a, b in [("text", "label"), *ROWS]))
    for arguments in (
        ("evaluate", "--model", runs / "task", "--input", rows),
        ("predict", "--model", runs / "bert", "a [MASK]"),
        ("export", "--model", runs / "task", "--output", runs / "new"),
        ("finetune", "classify", "--model", runs / "bert", "--train", rows, "--output", runs / "x"),
        ("pretrain", "bert", "--input", text, "--output", runs / "bert"),
    ):
        assert command(*arguments) == 1
        assert "vocab.txt was changed" in error(capsys)
    assert not (runs / "new").exists() and not (runs / "x").exists()


@pytest.mark.parametrize("files", [[], {"../x": "0"}, {"/etc/hosts": "0"}, "x"])
def test_damaged_records(run, tmp_path, files):
    path = shutil.copytree(run.path, tmp_path / "bert") / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": files}))
    with pytest.raises(ValueError, match="config.json has checksums"):
        tfnlp.load(tmp_path / "bert")


def test_changed_assets_of_an_exported_module(tmp_path):
    (tmp_path / "words.txt").write_text("one\ntwo\nthree\n")
    module = tf.Module()
    module.asset = tf.saved_model.Asset(str(tmp_path / "words.txt"))
    module.scale = tf.Variable(2.0)
    module.twice = tf.function(lambda x: x * module.scale, [tf.TensorSpec([None])])
    hub.save(module, tmp_path / "module", {"serving_default": module.twice.get_concrete_function()})
    assert tfnlp.load(tmp_path / "module")(x=[3.0])["output_0"].numpy() == 6
    swap_lines(tmp_path / "module/assets/words.txt")
    for load in (tfnlp.load, hub.Layer):
        with pytest.raises(ValueError, match="words.txt was changed"):
            load(tmp_path / "module")
    record = tmp_path / "module" / RECORD
    record.write_text("{")
    with pytest.raises(ValueError, match="tfnlp.json is damaged"):
        tfnlp.load(tmp_path / "module")
    record.unlink()  # as of someone else's module
    assert tfnlp.load(tmp_path / "module")(x=[3.0])["output_0"].numpy() == 6


def test_weights_of_another_checkpoint(tmp_path):
    variable = tf.Variable(1.0)
    checkpoints = Checkpoints(tmp_path, {"w": variable})
    first = pathlib.Path(checkpoints.save(1, {}))
    variable.assign(2.0)
    second = pathlib.Path(checkpoints.save(2, {}))
    for file in first.glob("variables.*"):
        shutil.copy(file, second)
    with pytest.raises(ValueError, match="variables.safetensors does not match its checksum"):
        checkpoints.restore(str(second))
