"""A run's folder on a remote path: TensorFlow's file system in memory."""

import json

import pytest
import tensorflow as tf

from tests.cli.command import tfnlp


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
