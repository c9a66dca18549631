"""From a published name to runs that go on without a network, and to a module that serves."""

import json
import os
import shutil

import pytest

import tfnlp
from tests.cli.command import error
from tests.cli.command import tfnlp as command
from tests.published import repositories
from tests.published.conftest import constants
from tests.published.hub_server import files_in

ROWS = [(f"the {'good' if i % 2 else 'bad'} book {i}", "no yes".split()[i % 2]) for i in range(16)]
TRAINING = dict(epochs=1, batch_size=8, max_length=16, no_buckets=True)


@pytest.mark.slow
def test_finetune(hub, tmp_path, monkeypatch):
    """A run goes on with the commit that it began with, from the cache."""
    files = repositories.bert(tmp_path / "bert")
    commit = hub.put("org/name", files)
    output = tmp_path / "task"

    def finetune():
        return tfnlp.finetune("classify", "hf://org/name", ROWS, output=output, **TRAINING)

    finetune()
    config = json.loads((output / "config.json").read_text())
    assert config["backbone"]["published"] == {"name": "hf://org/name", "revision": commit}
    hub.put("org/name", {**files, "model.safetensors": b"of another model"})
    hub.asked.clear()
    os.unlink(output / "results.json")
    finetune()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    finetune()
    assert hub.asked == []
    shutil.rmtree(constants.HF_HUB_CACHE)
    assert len(tfnlp.load(output).predict(["a good book"])) == 1


@pytest.mark.slow
def test_pretrain_from(hub, made, tmp_path, capsys):
    lines = [f"the {word} is here\nit was a {word}\n" for word in "cat dog man day".split() * 9]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    files = files_in(made("bert").run)
    commit = hub.put("me/bert", files)
    arguments = [
        "pretrain", "bert", "--input", tmp_path / "text.txt", "--layout", "lines",
        "--from", "hf://me/bert", "--output", tmp_path / "run", "--seq-length", 16,
        "--steps", 2, "--batch-size", 4, "--evaluate-batches", 1,
    ]  # fmt: skip
    assert command(*arguments) == 0
    training = json.loads((tmp_path / "run/config.json").read_text())["training"]
    assert (training["from"], training["from_revision"]) == ("hf://me/bert", commit)
    hub.put("me/bert", {**files, "README.md": b"changed"})
    hub.asked.clear()
    assert command(*arguments) == 0 and hub.asked == []
    again = ["hf://me/bert@main" if a == "hf://me/bert" else a for a in arguments]
    assert command(*again) == 1
    assert "holds a run with other settings (training.from" in error(capsys)
