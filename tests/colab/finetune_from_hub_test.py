"""The notebook that fine-tunes a SavedModel, at toy size."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tfnlp import books, hub

pytest.importorskip("nbclient")
from tests.colab.notebooks import is_drawn, numbers, pictures, run_notebook, text  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
LABELS = ["narrator", "spoken", "scrambled"]
METHODS = ["commonest label", "words", "words and pairs"]
METHODS += [f"BERT {name}" for name in ("frozen", "fine-tuned", "from scratch")]


def test_module_is_fine_tuned_compared_and_exported(tmp_path):
    notebook = run_notebook("finetune_from_hub", tmp_path)

    # The labels say what they should: scrambled sentences are none of the book's.
    examples = [line.split(maxsplit=1) for line in text(notebook, "task").splitlines()[1:]]
    assert len(examples) == 6 and {label for label, _ in examples} <= set(LABELS)
    book = books.path().read_text(encoding="utf-8").lower()
    book = " ".join(re.findall(r"[a-z]+(?:['-][a-z]+)*", book))
    for label, sentence in examples:
        assert (sentence in book) == (label != "scrambled"), sentence

    # What is said of the module is what is in it.
    found = hub.inspect(tmp_path / "bert/encoder")
    assert "Reusable SavedModel" in text(notebook, "inspect")
    head = 3 * (2 * 128) + 3  # the mean and the maximum of 128 numbers, to three labels
    frozen, all_of_it = numbers(notebook, "model", r"trainable=\w+ +([\d,]+) weights")
    assert (frozen, all_of_it) == (head, head + found.trainable_parameters)

    # Each accuracy is the mean, over the labels, of what was found of them.
    rows = [
        re.fullmatch(r"(.{20})" + r"\s+([\d.]+)" * 4, line)
        for line in text(notebook, "baselines").splitlines()[1:7]
    ]
    assert [row[1].strip() for row in rows] == METHODS
    values = np.array([[float(x) for x in row.groups()[1:]] for row in rows])
    assert ((0 <= values) & (values <= 1)).all()
    assert sorted(values[0, 1:]) == [0, 0, 1]  # the commonest label is always the same
    shares, *_ = np.linalg.lstsq(values[:, 1:], values[:, 0], rcond=None)
    assert np.abs(values[:, 1:] @ shares - values[:, 0]).max() < 0.02
    assert values[0, 0] == pytest.approx(shares[values[0, 1:].argmax()], abs=0.02)
    by_epoch = numbers(notebook, "fit", r"epoch: .*?([\d.]+)\n")
    assert by_epoch == pytest.approx(values[3:, 0], abs=0.0011)

    assert [is_drawn(picture) for picture in pictures(notebook, "confusion")] == [True]
    for said, truth in re.findall(r"^(\w+) \([\d.]+\), but (\w+):", text(notebook, "errors"), re.M):
        assert said != truth and {said, truth} <= set(LABELS)

    # The module by itself, here and in the notebook's own new Python.
    module = tf.saved_model.load(str(tmp_path / "who_speaks"))
    lines = text(notebook, "load").splitlines()
    shown = [line.split(maxsplit=2) for line in lines[:4]]
    outputs = module({"sentences": tf.constant([sentence for *_, sentence in shown])})
    probabilities = outputs["probabilities"].numpy()
    assert probabilities.sum(-1) == pytest.approx(np.ones(4), abs=1e-5)
    assert [label.decode() for label in outputs["label"].numpy()] == [label for label, *_ in shown]
    assert [LABELS[i] for i in probabilities.argmax(-1)] == [label for label, *_ in shown]
    assert [float(p) for _, p, _ in shown] == pytest.approx(probabilities.max(-1), abs=0.006)
    assert lines[4].split()[0] == str(len(module.trainable_variables))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(module({"sentences": ["to be trained"]})["probabilities"] ** 2)
    gradients = tape.gradient(loss, module.trainable_variables)
    assert sum(g is not None for g in gradients) > len(gradients) // 2
