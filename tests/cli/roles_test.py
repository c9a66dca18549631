"""Semantic roles that follow from nothing but the predicate are learnt."""

import json

import pytest

from tests.cli.command import tfnlp
from tests.cli.toy_tasks import backbone, roles


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_predicate_is_read(tmp_path):
    run, files = tmp_path / "run", {"train": roles(80, 3), "dev": roles(20, 4)}
    for name, rows in files.items():
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    command = ["finetune", "roles", "--model", backbone("elmo", tmp_path), "--output", run]
    command += ["--train", tmp_path / "train.jsonl", "--dev", tmp_path / "dev.jsonl"]
    options = ["--units", "16", "--epochs", "12", "--dropout", "0", "--features", "words", "--crf"]
    assert tfnlp(*command, *options, "--batch-size", "8", "--learning-rate", "0.01") == 0
    assert json.loads((run / "results.json").read_text())["metrics"]["f1"] > 0.9
