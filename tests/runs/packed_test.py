"""Runs with `pack` and `batch_tokens`: what they train on, and what is made of them."""

import json

import numpy as np
import pytest

import tfnlp
from tests.runs.conftest import ROWS
from tfnlp import books
from tfnlp.tasks import TASKS, FineTuning

SMALL = dict(
    num_layers=1, hidden_size=8, num_heads=2, seq_length=32, max_positions=32, vocab_size=300,
    batch_size=8, steps=4, steps_per_call=2, pack=True,
)  # fmt: skip
WORDS = books.path().read_text(encoding="utf-8")[:20_000].split()
LINES = [" ".join(WORDS[i : i + 7]) for i in range(0, len(WORDS), 7)]
TEXT = [LINES[i : i + 1 + i % 3] for i in range(0, len(LINES), 4)]  # documents of 1 to 3 lines
VALID = TEXT[::5]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("family", ["gpt", pytest.param("bert", marks=pytest.mark.long)])
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
    on = dict(start=str(tmp_path / "run"), steps=2, batch_size=8, seq_length=32, pack=True)
    tfnlp.pretrain(family, text=TEXT, valid=VALID, output=tmp_path / "on", **on)


def test_fine_tuning_by_tokens(encoder, tmp_path):
    rows = [(text * (1 + i % 4), label) for i, (text, label) in enumerate(ROWS)]
    settings = dict(train=rows, epochs=1, batch_tokens=96, max_length=32)
    task = tfnlp.finetune("classify", encoder, output=tmp_path / "task", **settings)
    config = json.loads((tmp_path / "task" / "config.json").read_text())
    assert config["training"]["batch_tokens"] == 96 and config["training"]["accumulation"] == 1
    assert np.isfinite(task.results["metrics"]["accuracy"])
    for name, value in (("batch_tokens", None), ("no_buckets", True)):
        with pytest.raises(ValueError, match=name):
            other = {**settings, name: value}
            tfnlp.finetune("classify", encoder, output=tmp_path / "task", **other)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    small = {name: value for name, value in SMALL.items() if name != "pack"}
    return tfnlp.pretrain("bert", text=TEXT, output=tmp_path_factory.mktemp("bert"), **small)


TAGGED = [(line.split(), ["long" if len(w) > 4 else "short" for w in line.split()])
          for line in LINES[:60]]  # fmt: skip


@pytest.mark.parametrize(
    "task", ["tag", *(pytest.param(x, marks=pytest.mark.long) for x in ("classify", "similarity"))]
)
def test_fine_tuning_on_packed_rows(task, encoder, tmp_path):
    rows = {
        "classify": [(text, WORDS[i], label) for i, (text, label) in enumerate(ROWS)],
        "similarity": [(text, WORDS[i], i % 5) for i, (text, _) in enumerate(ROWS)],
        "tag": TAGGED,
    }[task]
    settings = dict(train=rows, dev=rows, epochs=1, batch_size=8, max_length=32, pack=True)
    run = tfnlp.finetune(task, encoder, output=tmp_path / "task", **settings)
    config = json.loads((tmp_path / "task" / "config.json").read_text())
    assert config["training"]["pack"] is True and config["training"]["accumulation"] == 1
    for name, value in run.evaluate(rows).items():  # by the model that every command loads
        np.testing.assert_allclose(run.results["metrics"][name], value, atol=1e-4)
    assert_same_losses(encoder, config, task, rows)


def assert_same_losses(encoder, config, task, rows):
    """Compare the sums of the losses of all examples in packed rows and in rows of their own."""
    from tfnlp.runs.task_folder import make_task_model

    packed, alone = (make_task_model(encoder, config, pack=pack) for pack in (True, False))
    alone.model.set_weights(packed.packed.get_weights())
    examples = TASKS[task].read(rows).examples
    (prepared,) = packed.prepare([examples])
    together = packed.packed_batches(prepared, examples, batch_size=2)
    assert together.rows_per_epoch < len(prepared.encoded.row)
    rowwise = alone.batches(prepared, 4, examples)
    sums = []
    for model, batches in ((packed.packed, together), (alone.model, rowwise)):
        measured = FineTuning(model)
        found = [batches.batch(step) for step in range(batches.steps_per_epoch)]
        total = [sum(float(x) for x in measured.targets(b).values()) for b in found]
        outputs = [model({name: b[name] for name in model.input}) for b in found]
        pairs = zip(found, outputs, strict=True)
        loss = [float(*measured.losses(batch, output).values()) for batch, output in pairs]
        sums.append((sum(total), sum(loss)))
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-5)


def test_a_task_that_can_not_be_packed_is_refused(encoder, tmp_path):
    rows = [("a", ["b", "c"], 0)] * 20
    with pytest.raises(ValueError, match="takes no `pack`; classify, labels, similarity, scores,"):
        tfnlp.finetune("choose", encoder, rows, output=tmp_path / "task", pack=True)
