"""Semantic roles from files to a served model, with a backbone of each kind."""

import json

import numpy as np
import pytest

import tfnlp as library
from tests.cli.command import tfnlp
from tests.cli.toy_tasks import TEXTS, TRAINING, assert_alike, backbone, read_without_tfnlp

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
WINDOWS = ["--max-length", "16", "--stride", "5"]
CHOICES = {
    "bert crf": ["--crf"],
    "bert features": ["--features", "last", "--units", "4"],
    "elmo words": ["--units", "4", "--features", "words", "--crf"],
    "gpt": [],
    "roberta": ["--pack"],
}


def rows(count, seed):
    """Sentences of which the word before the predicate is A0 and the one after it A1."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        size = 20 if number == 0 else rng.integers(3, 9)  # the first is read in windows
        words = rng.choice(" ".join(TEXTS).split(), size).tolist()
        place = int(rng.integers(1, size - 1))
        tags = ["O"] * size
        tags[place - 1 : place + 2] = ["A0", "V", "A1"]
        found.append({"words": words, "predicate": place, "tags": tags})
    return found


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "bert crf", "elmo words", "gpt",
        *(pytest.param(x, marks=pytest.mark.long) for x in ("bert features", "roberta")),
    ],
)  # fmt: skip
def test_from_files_to_predictions_and_an_export(name, tmp_path, capsys):
    dev = rows(5, 2)
    files = ["--train", write(tmp_path / "train.jsonl", rows(12, 1)), "--dev"]
    files.append(write(tmp_path / "dev.jsonl", dev))
    run, module = tmp_path / "run", tmp_path / "module"
    model = backbone(name.split()[0], tmp_path)
    command = ["finetune", "roles", "--model", model, *files, "--output", run, *WINDOWS]
    assert tfnlp(*command, *TRAINING, *CHOICES[name]) == 0
    lines = (run / "dev_predictions.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in lines]
    assert [len(p["tags"]) for p in kept] == [len(row["words"]) for row in dev]

    capsys.readouterr()
    evaluate = ["evaluate", "--model", run, "--input", files[-1], "--json"]
    assert tfnlp(*evaluate, "--report", tmp_path / "report") == 0
    found = json.loads(capsys.readouterr().out.split("\n")[0])
    results = json.loads((run / "results.json").read_text())
    np.testing.assert_allclose(found["f1"], results["metrics"]["f1"], atol=1e-4)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    predicate = f"[{dev[1]['words'][dev[1]['predicate']]}]"
    assert predicate in page or kept[1]["tags"] == dev[1]["tags"]

    # Alone, in Python, and as a text with a number: as among others.
    loaded = library.load(run)
    some = [(row["words"], row["predicate"]) for row in dev[:2]]
    for one, other in zip(loaded.predict(some), kept, strict=False):
        assert_alike(one, other)
    texts = [" ".join(row["words"]) for row in dev]
    as_text = loaded.predict([(texts[3], str(dev[3]["predicate"]))])
    assert_alike(as_text[0], kept[3])

    assert tfnlp("export", "--model", run, "--output", module) == 0
    asked = {"text": texts, "predicate": [row["predicate"] for row in dev]}
    said = read_without_tfnlp(tmp_path, {"roles": (module, asked)})["roles"]
    for i, prediction in enumerate(kept):
        count = len(prediction["tags"])
        assert said["tags"][i][:count] == prediction["tags"]
        np.testing.assert_allclose(
            said["probabilities"][i][:count], prediction["probabilities"], atol=2e-4
        )


def test_the_predicate_is_read(tmp_path):
    """Sentences whose roles follow from nothing else are learnt."""
    run = tmp_path / "run"
    train = write(tmp_path / "train.jsonl", rows(80, 3))
    model = backbone("elmo", tmp_path)
    command = ["finetune", "roles", "--model", model, "--train", train, "--output", run]
    options = ["--units", "16", "--epochs", "12", "--dropout", "0", "--features", "words"]
    options += ["--batch-size", "8", "--learning-rate", "0.01"]
    assert tfnlp(*command, *options, "--dev", write(tmp_path / "dev.jsonl", rows(20, 4))) == 0
    assert json.loads((run / "results.json").read_text())["metrics"]["f1"] > 0.9
