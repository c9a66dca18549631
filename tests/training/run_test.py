"""The folder of a run: what `--restart` deletes; the signals that stop it."""

import json
import os
import shutil
import signal

import pytest
import tensorflow as tf

from tests.cli.command import tfnlp
from tfnlp.runs.task_folder import delete_task
from tfnlp.training.loop import StopSignal
from tfnlp.training.run import delete_run, write_config

RUN = ["config.json", "page.html", "vocab.txt", "logs/events", "checkpoints/best-0000000001/x"]
PRETRAINING = [*RUN, "counts.txt", "vocab/merges.txt"]
TASK = [*RUN, "runs.json", "results.json", "dev_predictions.jsonl", "words.txt"]
TASK += ["backbone.weights.h5", "backbone/saved_model.pb"]


@pytest.mark.parametrize(("delete", "files"), [(delete_run, PRETRAINING), (delete_task, TASK)])
def test_a_deletion_that_was_cut_short_is_finished_by_the_next(delete, files, tmp_path):
    """Otherwise parts of the earlier run would be taken for those of the next."""
    for number in range(1, len(files) + 1):
        folder = tmp_path / str(number)
        for name in [*files, "of_the_user.txt"]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text('{"tfnlp": "0.1.0"}')
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            _stop_at_deletion(number, patch)
            delete(folder)
        assert len(os.listdir(folder)) > 1
        delete(folder)
        assert os.listdir(folder) == ["of_the_user.txt"]


def test_other_settings_are_named(tmp_path):
    write_config(tmp_path, {"tfnlp": "0.1.0", "training": {"bf16": True, "seed": 1}})
    write_config(tmp_path, {"tfnlp": "0.1.0", "training": {"bf16": True, "seed": 1}})
    for changed, said in (
        ({"bf16": True, "seed": 2}, "seed"),
        ({"bf16": False, "seed": 1}, "bf16"),
    ):
        with pytest.raises(ValueError, match=f"training.{said} was"):
            write_config(tmp_path, {"tfnlp": "0.1.0", "training": changed})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])  # as `nohup` asks
def test_signals_that_stop_a_run(number, before):
    kept = signal.signal(number, before)
    try:
        with StopSignal() as stop:
            signal.raise_signal(number)
            assert stop.received == (before is signal.SIG_DFL)
            assert signal.getsignal(number) is before  # a second one acts at once
    finally:
        signal.signal(number, kept)


def _stop_at_deletion(number, patch):
    """Raise in place of the nth deletion of a file or folder, as a kill would come there."""
    deletions = []

    def counted(function):
        def call(*arguments, **keywords):
            deletions.append(arguments)
            if len(deletions) == number:
                raise KeyboardInterrupt
            return function(*arguments, **keywords)

        return call

    for module, names in (
        (tf.io.gfile, ("remove", "rmtree")),
        (os, ("remove",)),
        (shutil, ("rmtree",)),
    ):
        for name in names:
            patch.setattr(module, name, counted(getattr(module, name)))


@pytest.mark.slow
def test_run_there_resumes_and_is_read(made, capsys):
    run, toy = "ram://bert/run", made("bert")
    text = toy.valid
    assert tfnlp(*toy.command(run)) == 0
    names = {name.rstrip("/") for name in tf.io.gfile.listdir(run)}
    assert {"checkpoints", "config.json", "page.html", "vocab.txt"} <= names
    with tf.io.gfile.GFile(f"{run}/config.json") as file:
        assert json.loads(file.read())["model"] == "bert"
    with tf.io.gfile.GFile(f"{run}/page.html") as file:
        assert file.read().rstrip().endswith("</html>")
    steps = [n for n in tf.io.gfile.listdir(f"{run}/checkpoints") if n.startswith("step")]
    assert tfnlp(*toy.command(run)) == 0  # nothing left to do
    assert [n for n in tf.io.gfile.listdir(f"{run}/checkpoints") if n[:4] == "step"] == steps
    capsys.readouterr()
    assert tfnlp(*toy.command(run, learning_rate=0.5)) == 1
    assert "another --output" in capsys.readouterr().err
    assert tfnlp("evaluate", "--model", run, "--input", text, "--json") == 0
    assert json.loads(capsys.readouterr().out.strip().split("\n")[-1])["loss"] > 0
    assert tfnlp("evaluate", "--model", "ram://none", "--input", text) == 1
    assert "ram://none does not exist" in capsys.readouterr().err
