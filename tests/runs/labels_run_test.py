"""A run with several labels: from files of each form to predictions, on packed rows."""

import json

import numpy as np
import pytest

import tfnlp
from tests.cli.command import tfnlp as command
from tests.cli.toy_tasks import backbone

BERT = backbone("bert", None)
WORDS = ["dog", "cat", "man", "day", "end"]
RATES = dict(learning_rate=3e-3, batch_size=8, max_length=16, warmup=0.1)


def rows(count, seed):
    """Texts of one to five words; the labels are three of them, where they occur."""
    rng = np.random.default_rng(seed)
    texts = [list(rng.permutation(WORDS)[: rng.integers(1, 6)]) for _ in range(count)]
    return [("the " + " ".join(t), sorted({"dog", "cat", "man"} & set(t))) for t in texts]


def table(path, some):
    """The rows with a column of 0 and 1 for each label, and one more that is no label."""
    lines = [f"{text},{int('man' in y)},{int('cat' in y)},{int('dog' in y)},7" for text, y in some]
    path.write_text("\n".join(["text,man,cat,dog,votes", *lines]) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_labels_are_learnt_and_thresholds_are_kept(tmp_path, capsys):
    train, dev = rows(120, 0), rows(40, 1)
    task = tfnlp.finetune(
        "labels", BERT, train, dev, tmp_path / "run", epochs=8, class_weights="balanced",
        label_smoothing=0.1, pack=True, **RATES,
    )  # fmt: skip
    assert task.labels == ["cat", "dog", "man"]
    found = task.results["metrics"]
    assert found["micro_f1"] > 0.8 > 0.5  # always all labels: 0.5 or so
    assert found["micro_f1"] >= task.results["metrics_at_0.5"]["micro_f1"] - 0.05
    kept = json.loads((tmp_path / "run" / "results.json").read_text())["thresholds"]
    again = tfnlp.load(tmp_path / "run")
    assert dict(zip(again.labels, again.task_model.task.thresholds, strict=True)) == kept
    measured = again.evaluate(dev, report=str(tmp_path / "page"))
    assert measured == pytest.approx(found, abs=1e-6)
    for row in again.predict([text for text, _ in dev]):
        assert row["labels"] == [n for n in kept if row["probabilities"][n] >= kept[n]]
    # Columns of 0 and 1, in another order, are the same examples.
    assert again.evaluate(table(tmp_path / "dev.csv", dev)) == measured
    assert command("predict", "--model", tmp_path / "run", "the dog") == 0
    assert "the dog" in capsys.readouterr().out
    page = (tmp_path / "page" / "page.html").read_text()
    assert "By label" in page and "f1/cat" not in page
