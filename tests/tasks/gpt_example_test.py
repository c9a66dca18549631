import importlib.util
import json
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfnlp import models
from tfnlp.commands import loading

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "gpt_tasks.py"
CONFIG = dict(
    vocab_size=30,
    num_layers=1,
    hidden_size=16,
    num_heads=2,
    intermediate_size=32,
    max_positions=12,
    initializer_range=0.2,
)


class Words:
    """A tokenizer of the first letters of words."""

    def tokenize(self, strings):
        letters = tf.strings.substr(tf.strings.split(tf.strings.lower(strings)), 0, 1)
        codes = tf.ragged.map_flat_values(tf.strings.unicode_decode, letters, "UTF-8")
        return tf.cast(codes.merge_dims(1, 2), "int32") - ord("a")


@pytest.fixture
def example(monkeypatch):
    keras.utils.set_random_seed(0)
    loaded = types.SimpleNamespace(
        encoder=models.gpt(**CONFIG), config=CONFIG, tokenizer=Words(), pretrainer=None
    )
    monkeypatch.setattr(loading, "load_gpt", lambda path: loaded, raising=False)
    spec = importlib.util.spec_from_file_location("gpt_tasks_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments(folder, task, content, *more):
    path = folder / "data"
    path.write_text(content)
    given = ["--model", "x", "--task", task, "--train", str(path), "--output", str(folder / "out")]
    given += "--batch-size 4 --dropout 0 --classifier-dropout 0 --learning-rate 0.02".split()
    return [*given, *more]


def test_a_stopped_script_goes_on(example, tmp_path, capsys, monkeypatch):
    content = "1 a fine film\n0 a dull long film\n" * 6
    path = str(tmp_path / "data")
    more = ["--dev", path, "--seeds", "1", "--epochs", "12", "--scratch-learning-rate", "0.03"]
    given = arguments(tmp_path, "sst2", content, *more)
    done = example.main([*given, "--variants", "scratch,auxiliary"])
    # What was trained on is known by heart afterwards.
    assert [(r["variant"], r["seed"], r["score"]) for r in done] == [
        ("scratch", 1, 1.0),
        ("auxiliary", 1, 1.0),
    ]
    assert ["lm_loss" in r["held_out"] for r in done] == [False, True]
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["runs"] == done

    trained = []
    train = example.train
    monkeypatch.setattr(
        example, "train", lambda *a: trained.append((a[-3], a[-2])) or train(*a)
    )
    assert example.main([*given, "--variants", "scratch,pretrained,auxiliary"])[:2] == done
    assert trained == [("pretrained", 1)]
    *_, scratch, pretrained, auxiliary = capsys.readouterr().out.strip().splitlines()
    assert scratch.startswith("| scratch | 0.03 | 1.0000 | 1 |")
    assert pretrained.startswith("| pretrained | 0.02 | 1.0000 | 1 |")
    assert auxiliary.startswith("| auxiliary | 0.02 |")
    with pytest.raises(ValueError, match=r"results of other settings \(epochs\)"):
        example.main([*given, "--epochs", "2"])


def test_scores_and_the_held_out_part(example, tmp_path, capsys):
    rng = np.random.default_rng(0)
    lines = [f"g\tf\ty\t{n}\t{n % 5}\t{'b ' * (n % 5)}c\td" for n in rng.integers(0, 99, 20)]
    given = arguments(tmp_path, "stsb", "\n".join(lines), "--seeds", "2", "--epochs", "1")
    done = example.main([*given, "--variants", "pretrained"])
    assert [run["seed"] for run in done] == [1, 2] and all(-1 <= r["score"] <= 1 for r in done)
    printed = capsys.readouterr().out
    assert "16 examples to train on, 4 held out" in printed and "| stsb |" in printed
    found = [run["score"] for run in done]
    assert f"| {np.mean(found):.4f} +- {np.std(found, ddof=1):.4f} | 2 |" in printed


def test_labels_as_numbers(example):
    def part(*labels):
        return [types.SimpleNamespace(label=label) for label in labels]

    assert example.label_values("class", [part("b", "a"), part("c")]) == ([[1, 0], [2]], 3)
    assert example.label_values("choice", [part(2, 0), part(1)]) == ([[2, 0], [1]], None)
    (train, held_out), _ = example.label_values("score", [part(1.0, 3.0), part(5.0)])
    assert train == [-1.0, 1.0] and held_out == [3.0]
