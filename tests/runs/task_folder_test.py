"""A fine-tuned run: loaded as it was written, refused where damaged, predicting part by part."""

import gc
import json
import types
import weakref

import numpy as np
import pytest

import tfnlp
from tests.cli.toy_tasks import backbone
from tests.layers.reference import randomize
from tfnlp.data import TaskExample
from tfnlp.runs import task_folder, task_run
from tfnlp.runs.backbone import backbone_config, keep_backbone
from tfnlp.tasks import Labels
from tfnlp.training import Checkpoints, History
from tfnlp.training.checkpoints import model_variables
from tfnlp.training.run import record_files, write_config

TEXTS = ["the dog ran", "a cat sat"]
LAYERS = dict(units=4, lstm_layers=1)  # of a network on features


@pytest.fixture(scope="module", params=["fine-tuned", "features"])
def written(request, tmp_path_factory):
    """A run of two classes as training leaves it, with random weights: folder and model."""
    folder = tmp_path_factory.mktemp("task") / "run"
    bert = tfnlp.load(backbone("bert", None))
    on_features = request.param == "features"
    config = {
        "tfnlp": tfnlp.__version__,
        "model": "task",
        "spec": Labels(labels=("no", "yes"), max_length=16).config(),
        "backbone": backbone_config(bert),
        "features": "last" if on_features else None,
        "head": {"dropout": 0.1, **(LAYERS if on_features else {})},
        "columns": {"text": None, "label": None},
    }
    model = task_folder.make_task_model(bert, config)
    randomize(model.model, np.random.default_rng(0), 0.5)
    write_config(folder, config)
    keep_backbone(bert, str(folder), model.features)
    checkpoints = Checkpoints(folder / "checkpoints", model_variables(model.model))
    checkpoints.save(1, {"history": History().state()})
    (folder / task_folder.RESULTS).write_text('{"thresholds": {"no": 0.0, "yes": 0.875}}')
    record_files(folder, [*task_folder.KEPT, task_folder.RESULTS])
    return folder, model


@pytest.mark.slow
def test_a_run_loads_as_it_was_written(written):
    folder, model = written
    loaded = tfnlp.load(folder)
    assert (loaded.task, loaded.labels) == ("labels", ["no", "yes"])
    assert loaded.task_model.task.thresholds == (0.0, 0.875)  # those that were tuned
    want = model.predict([tfnlp.data.TaskExample((text,), None) for text in TEXTS])
    for one, other in zip(loaded.predict(TEXTS), want, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)
        assert one["labels"] == [n for n, p in one["probabilities"].items()
                                 if p >= {"no": 0.0, "yes": 0.875}[n]]  # fmt: skip


def test_results_that_were_changed_are_refused(written):
    path = written[0] / task_folder.RESULTS
    said = path.read_text()
    path.write_text(said.replace("0.875", "0.125"))
    with pytest.raises(ValueError, match="results.json was changed"):
        tfnlp.load(written[0])
    path.unlink()
    with pytest.raises(FileNotFoundError, match="results.json is missing"):
        tfnlp.load(written[0])
    path.write_text(said)


@pytest.mark.parametrize(
    "place, value",
    [
        ("model", "t5"),
        ("spec.task", "guess"),
        ("features", "first"),
        ("head.dropout", 2),
        ("backbone.kind", "word2vec"),
        ("backbone.arguments.hidden_size", "8"),
        ("backbone.arguments.vocab_size", 10**9),
    ],
)
def test_a_config_that_a_run_does_not_write_is_refused(written, place, value):
    folder, _ = written
    path = folder / "config.json"
    written = path.read_text()
    config = json.loads(written)
    *sections, name = place.split(".")
    section = config
    for key in sections:
        section = section[key]
    section[name] = value
    path.write_text(json.dumps(config))
    try:
        with pytest.raises(ValueError, match="config.json"):
            tfnlp.load(folder)
    finally:
        path.write_text(written)


def test_rows_of_the_dev_set_are_short_and_of_each_label_first(tmp_path):
    rows = [
        {"text_a": "a", "text_b": "b", "gold": "no", "label": "no"},
        {"text": "x" * 2000, "gold": "odd", "label": "no"},
        {"text": "d", "gold": "no", "label": "yes"},
        {"words": ["e", "f"], "predicate": 1, "gold": ["no", "O"], "tags": ["O", "O"]},
        {"text": "g", "choices": ["h", "i"], "gold": 1, "choice": 0},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "dev_predictions.jsonl").write_text(lines)
    found = task_folder.dev_examples(str(tmp_path), 3)
    assert found == [
        {"text_a": "a", "text_b": "b"},
        {"text": "e f", "predicate": 1},
        {"text": "g", "choices": ["h", "i"]},
    ]
    assert task_folder.dev_examples(str(tmp_path), 9) == [*found, {"text": "d"}]
    assert task_folder.dev_examples(str(tmp_path), 0) == []
    assert task_folder.dev_examples(str(tmp_path / "no"), 3) == []
    (tmp_path / "dev_predictions.jsonl").write_text("{")
    with pytest.raises(ValueError, match="dev_predictions.jsonl is damaged"):
        task_folder.dev_examples(str(tmp_path), 3)


class Lengths:
    """A fine-tuned model that predicts the length of each text, and keeps how many it read."""

    task = types.SimpleNamespace(limit="max_length 9")

    def __init__(self):
        self.parts = []

    def prepare(self, parts):
        (part,) = parts
        self.parts.append(len(part))
        cut = sum(len(text) > 9 for text in part)
        return [types.SimpleNamespace(encoded=types.SimpleNamespace(cut=cut))]

    def predict(self, examples, batch_size, prepared):
        return [{"score": len(text)} for text in examples]


def test_tasks(monkeypatch, capsys):
    monkeypatch.setattr(task_run, "_PART", 4)
    run = task_run.TaskRun.__new__(task_run.TaskRun)
    run.task_model = Lengths()
    texts = ["x" * count for count in (3, 12, 5, 1, 7, 2, 10, 4, 6)]
    found = run.predictions(texts, 32, "texts")
    assert next(found) == {"score": 3}
    assert run.task_model.parts == [4]  # the others are not read yet
    assert [3, *(row["score"] for row in found)] == [len(text) for text in texts]
    assert run.task_model.parts == [4, 4, 1]
    assert "2 of 9 examples" in capsys.readouterr().err


@pytest.mark.slow
def test_what_was_predicted_is_not_kept(task, monkeypatch):
    """TensorFlow keeps the functions of data sets, so they must not refer to the examples."""
    model = task_run.TaskRun(task.path).task_model
    make, arrays = model.batches, []

    def batches(*arguments):
        made = make(*arguments)
        arrays.extend(map(weakref.ref, made._tokens.values()))
        return made

    monkeypatch.setattr(model, "batches", batches)
    assert len(model.predict([TaskExample((text,), None) for text in ("one", "or two")])) == 2
    gc.collect()
    assert arrays and all(array() is None for array in arrays)
