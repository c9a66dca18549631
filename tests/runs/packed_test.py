"""Runs with `pack` and `batch_tokens`: what they train on, and what is made of them."""

import json

import numpy as np
import pytest

import tfnlp
from tests.runs.front_door_test import ROWS
from tfnlp import books

SMALL = dict(
    num_layers=1, hidden_size=8, num_heads=2, seq_length=32, max_positions=32, vocab_size=300,
    batch_size=8, steps=4, steps_per_call=2, pack=True,
)  # fmt: skip
WORDS = books.path().read_text(encoding="utf-8")[:20_000].split()
LINES = [" ".join(WORDS[i : i + 7]) for i in range(0, len(WORDS), 7)]
TEXT = [LINES[i : i + 1 + i % 3] for i in range(0, len(LINES), 4)]  # documents of 1 to 3 lines
VALID = TEXT[::5]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("family", ["gpt", "roberta"])
def test_a_packed_run_is_measured_as_it_was_trained_and_loads_as_any_other(family, tmp_path):
    run = tfnlp.pretrain(family, text=TEXT, valid=VALID, output=tmp_path / "run", **SMALL)
    settings = json.loads((tmp_path / "run" / "config.json").read_text())
    assert settings["training"]["pack"] is True and "packed" not in settings["arguments"]
    loaded = tfnlp.load(tmp_path / "run")
    assert "sequence_ids" not in loaded.encoder.input
    found = loaded.evaluate(VALID, batch_size=8, **({"seq_length": 32} if family != "gpt" else {}))
    if family == "gpt":  # masks of other seeds differ
        np.testing.assert_allclose(found["loss"], run.results["loss"], rtol=1e-5)
    with pytest.raises(ValueError, match="training.pack was True"):
        again = {**SMALL, "pack": False}
        tfnlp.pretrain(family, text=TEXT, valid=VALID, output=tmp_path / "run", **again)
    on = {
        "start": str(tmp_path / "run"),
        "steps": 2,
        "batch_size": 8,
        "seq_length": 32,
        "pack": True,
    }
    tfnlp.pretrain(family, text=TEXT, valid=VALID, output=tmp_path / "on", **on)


def test_fine_tuning_by_tokens(tmp_path):
    model = tfnlp.pretrain("roberta", text=TEXT, output=tmp_path / "run", **SMALL)
    rows = [(text * (1 + i % 4), label) for i, (text, label) in enumerate(ROWS)]
    settings = dict(train=rows, epochs=2, batch_tokens=96, max_length=32)
    task = tfnlp.finetune("classify", model, output=tmp_path / "task", **settings)
    config = json.loads((tmp_path / "task" / "config.json").read_text())
    assert config["training"]["batch_tokens"] == 96 and config["training"]["accumulation"] == 1
    assert np.isfinite(task.results["metrics"]["accuracy"])
    tfnlp.finetune("classify", model, output=tmp_path / "task", **settings)  # it has ended
    with pytest.raises(ValueError, match="batch_tokens was 96, now None"):
        less = {**settings, "batch_tokens": None}
        tfnlp.finetune("classify", model, output=tmp_path / "task", **less)
    with pytest.raises(ValueError, match="`no_buckets`"):
        more = {**settings, "no_buckets": True}
        tfnlp.finetune("classify", model, output=tmp_path / "other", **more)


def test_translation_by_tokens(tmp_path):
    pairs = [(line, line.upper()) for line in LINES[:200]]
    sizes = dict(num_layers=1, hidden_size=8, num_heads=2, vocab_size=300, steps=4)
    run = tfnlp.pretrain(
        "transformer", text=pairs, output=tmp_path / "run", batch_tokens=256, **sizes
    )
    assert np.isfinite(run.results["loss"])


def test_contradictions_are_refused(tmp_path):
    with pytest.raises(ValueError, match="`pack` can't be given with `teacher`"):
        teacher = tfnlp.pretrain(
            "distilbert", text=TEXT, output=tmp_path / "teacher", **{**SMALL, "pack": False}
        )
        tfnlp.pretrain(
            "distilbert", text=TEXT, output=tmp_path / "run", teacher=teacher.path, steps=2,
            seq_length=32, pack=True,
        )  # fmt: skip


def test_prepared_examples_are_refused(tmp_path):
    from tfnlp.families.packing import check_pack

    config = tfnlp.families.FAMILIES["gpt"].config.make(
        examples=str(tmp_path), output=str(tmp_path / "run"), pack=True
    )
    with pytest.raises(ValueError, match="`pack` needs `text`"):
        check_pack(config)
