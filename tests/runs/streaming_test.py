"""Long inputs are predicted a part at a time: in order, and with no more than a part in memory."""

import gc
import types
import weakref

import pytest

from tfnlp.data import TaskExample
from tfnlp.runs import task_run


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
