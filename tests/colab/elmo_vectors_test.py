"""The notebook about an ELMo's vectors, at toy size."""

import re

import h5py
import numpy as np
import pytest
import tensorflow as tf

from tfnlp import data
from tfnlp.text import split_words

pytest.importorskip("nbclient")
from tests.colab.notebooks import (  # noqa: E402
    cell,
    is_drawn,
    numbers,
    pictures,
    read,
    run,
    run_notebook,
    text,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def held_out_sentences(count):
    """The first words of the chapters that the notebook keeps apart."""
    chapters = list(data.read_documents("book:the_secret_garden", paragraphs=True))
    _, held_out = data.split_documents(chapters, 0.15, seed=0)
    sentences = (split_words(s).split() for p in held_out[0] for s in data.split_sentences(p))
    return [sentence for sentence, _ in zip(sentences, range(count), strict=False)]


def test_vectors_are_looked_at_mixed_and_kept(tmp_path):
    notebook = run_notebook("elmo_vectors", tmp_path)

    counts = [int(x) for x in re.findall(r"^(\d+) times", text(notebook, "word"), re.M)]
    assert len(counts) == 2 and min(counts) > 10

    # Without context all uses are alike; with it, each query has three of them.
    shown = text(notebook, "neighbours").splitlines()
    assert [line for line in shown if line.startswith("layer")] == [f"layer {j}" for j in range(3)]
    alike = [line for line in shown if f"all {sum(counts)} uses are as near: 1.00" in line]
    uses = [line for line in shown if re.match(r" +-?\d\.\d\d  \.\.\. .*\bstill\b", line)]
    assert len(alike) == 2 and len(uses) == 2 * 2 * 3

    words = [line.split() for line in text(notebook, "words").splitlines()]
    assert len(words) == 6 and not any("still" in line[6:] for line in words)
    assert words[0][6:] == words[1][6:]  # layer 0 of either sentence

    commoner, *agreements = numbers(notebook, "senses", r": (\d\.\d\d)\n")
    assert commoner == pytest.approx(max(counts) / sum(counts), abs=0.006)
    assert len(agreements) == 2 and all(0 <= x <= 1 for x in agreements)

    (always,) = numbers(notebook, "train", r"always the commoner tag +([\d.]+)")
    accuracies = numbers(notebook, "train", r"(?:ELMo, .*?|each word's commonest tag) +(0\.\d+)")
    assert always >= 0.5 and len(accuracies) == 5 and all(0 < x <= 1 for x in accuracies)
    for tag in ("plane", "weights"):
        assert [is_drawn(picture) for picture in pictures(notebook, tag)] == [True]

    # The files hold what the module that was exported says.
    module = tf.saved_model.load(str(tmp_path / "elmo_with_cache"))
    first, *_ = sentences = held_out_sentences(3)
    tokens = [[*words, *[""] * (40 - len(words))] for words in sentences]
    outputs = module({"tokens": tf.constant(tokens), "sequence_len": [len(w) for w in sentences]})
    with h5py.File(tmp_path / "layers.hdf5") as file:
        assert len(file) == numbers(notebook, "files", r"(\d+) sentences")[0]
        for number, words in enumerate(sentences):
            for layer in (1, 2):
                expected = outputs[f"lstm_outputs{layer}"][number, : len(words)]
                assert np.abs(file[str(number)][layer] - expected).max() < 1e-5
    assert numbers(notebook, "cache", r"difference of an output: (\S+)")[0] < 1e-5

    # The mix that the task learnt is the module's: it is that of the picture's layers.
    learnt = sorted(module.trainable_variables, key=lambda v: -v.shape.rank)
    scalars, gamma = (v.numpy() for v in learnt)
    assert scalars.shape == (3,) and np.ptp(scalars) > 0 and gamma != 1
    shares = np.exp(scalars) / np.exp(scalars).sum()
    layers = [np.tile(outputs["word_emb"], 2), outputs["lstm_outputs1"], outputs["lstm_outputs2"]]
    mixed = gamma * np.tensordot(shares, np.stack(layers), 1)
    assert np.abs(mixed[0, : len(first)] - outputs["elmo"][0, : len(first)]).max() < 1e-5

    # The same with that module in place of a training of its own.
    again = read("elmo_vectors")
    settings = cell(again, "settings")
    assert 'folder = ""' in settings.source
    settings.source = settings.source.replace('folder = ""', 'folder = "elmo_with_cache"')
    again.cells = again.cells[: again.cells.index(cell(again, "neighbours")) + 1]
    run(again, tmp_path)
    assert "trained" in text(notebook, "elmo") and "trained" not in text(again, "elmo")
    assert "layers, words, width: (3, 4, 32)" in text(again, "elmo")
    assert text(again, "neighbours").splitlines()[:5] == shown[:5]  # those of layer 0
    assert len(text(again, "neighbours").splitlines()) == len(shown)
