"""Packages that only some work needs: what is said where they are missing."""

import sys

import pytest

from tests.support import run_python
from tfnlp.extras import needed
from tfnlp.pictures import can_draw


def test_what_is_missing_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    said = r"^BLEU needs sacrebleu: pip install sacrebleu \(the extra `translation`\)$"
    with pytest.raises(ImportError, match=said):
        needed("sacrebleu.metrics", "sacrebleu", "translation", "BLEU")
    assert needed("json", "json", None, "nothing").loads("1") == 1


def test_a_missing_package_is_said_before_the_work(monkeypatch, tmp_path):
    from tfnlp.data.corpus.documents import open_tfds
    from tfnlp.families import FAMILIES
    from tfnlp.runs.task_run import TaskRun

    for name in ("sacrebleu.metrics", "plotly.offline", "tensorflow_datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="^BLEU needs sacrebleu"):
        FAMILIES["seq2seq"].evaluate(None, None)
    run = object.__new__(TaskRun)  # nothing of it is read before
    with pytest.raises(ImportError, match="^page.html needs plotly"):
        run.evaluate([("good", "a")], report=str(tmp_path / "page"))
    with pytest.raises(ImportError, match=r"^tfds:imdb_reviews needs tensorflow-datasets"):
        open_tfds("tfds:imdb_reviews")


def test_without_matplotlib_a_picture_is_left_out_and_said_once(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not can_draw("search.png") and not can_draw("search.png")
    said = "search.png is not drawn: pip install matplotlib (the extra `pictures`)\n"
    assert capsys.readouterr().err == said


@pytest.mark.slow
def test_without_tensorflow_text():
    """As on Windows: models are made and trained, and a tokenizer says what it needs."""
    code = """
import sys
sys.modules["tensorflow_text"] = None
import numpy as np
from tfnlp import checkpoints, data, hub, layers, models, objectives, tasks, text, training
for package in (checkpoints, data, hub, layers, models, tasks, text, training):
    for name in package.__all__:
        getattr(package, name)
sizes = dict(hidden_size=8, num_layers=1, num_heads=2, intermediate_size=8)
model = models.bert_task(models.bert(11, **sizes), "class", num_classes=2)
ids = np.ones((4, 3), "int32")
model.compile("adam", "mse")
inputs = {"input_word_ids": ids, "input_mask": ids, "input_type_ids": 0 * ids}
model.fit(inputs, {"class_logits": np.zeros((4, 2))}, verbose=0)
try:
    text.WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])
except ImportError as error:
    print(error)
"""
    said = run_python(code).stdout
    assert "FastWordpieceTokenizer of tensorflow-text, which is not installed" in said
