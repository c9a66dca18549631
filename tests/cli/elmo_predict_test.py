"""`tfnlp predict elmo`: neighbours, HDF5 files, and what it says to bad input."""

import functools
import json

import h5py
import numpy as np
import pytest

from tests.cli.command import tfnlp
from tests.support import golden, traced
from tfnlp.convert import load_elmo
from tfnlp.text import character_ids

MODEL = golden("elmo_bilm_tf")


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """Thirty sentences, one a line, and an empty line."""
    texts = json.loads((MODEL / "lm_embeddings_sentences.json").read_text())
    path = tmp_path_factory.mktemp("text") / "sentences.txt"
    lines = [sentence for text in texts for sentence in text]
    path.write_text("\n".join([*lines[:3], "", *lines[3:]]) + "\n", encoding="utf-8")
    return path


def predict(*arguments):
    return tfnlp("predict", "elmo", "--model", MODEL, *arguments)


@functools.cache
def encoder():
    return traced(load_elmo(MODEL).encoder)


def vectors(words):
    """Unit vectors of the first LSTM layer, `[n, D]`, of a sentence alone."""
    x = np.array(encoder()(character_ids([words]))["lstm_outputs1"][0])
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.slow
def test_neighbours_are_those_of_a_search_by_hand(sentences, capsys):
    query = "He said that the bank closed ."
    assert predict("--word", "bank", "--corpus", sentences, "--top", 3, query) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "He said that the [bank] closed ."
    target = vectors(query.split())[4]
    scores = []
    for line in sentences.read_text(encoding="utf-8").split("\n"):
        if words := line.split():
            cosines = vectors(words) @ target
            scores.append((cosines.max(), words[cosines.argmax()]))
    best = sorted(scores, reverse=True)[:3]
    for line, (score, word) in zip(shown[1:], best, strict=True):
        assert line.startswith(f"  {score:.3f}  ") and f"[{word}]" in line


def test_only_the_same_word_and_not_the_sentence_itself(sentences, capsys):
    query = next(s for s in sentences.read_text("utf-8").split("\n") if " the " in s)
    assert predict("--word", "the", "--corpus", sentences, "--same", query) == 0
    shown = capsys.readouterr().out.splitlines()[1:]
    assert len(shown) == 5 and all("[the]" in line for line in shown)
    place = query.split().index("the")
    nearby = " ".join(query.split()[max(0, place - 3) : place])
    assert not any(nearby in line for line in shown)


@pytest.mark.parametrize("carry", [False, True])
def test_hdf5_has_a_dataset_a_line(sentences, carry, tmp_path, capsys):
    output = tmp_path / "layers.hdf5"
    more = ["--carry-state"] if carry else []
    assert predict("--input", sentences, "--hdf5", output, *more) == 0
    lines = sentences.read_text(encoding="utf-8").split("\n")[:-1]
    with h5py.File(output) as file:
        assert len(file) == len(lines) == 31
        for number, line in enumerate(lines):
            assert file[str(number)].shape == (3, len(line.split()), 32)
            assert file[str(number)].dtype == "float32"
        if carry:  # bilm-tf's own recording of the first text, whose first three lines these are
            with h5py.File(MODEL / "lm_embeddings_0.hdf5") as recorded:
                for number in range(3):
                    both = np.concatenate(list(recorded[str(number)]), -1)
                    np.testing.assert_allclose(file[str(number)][2], both, atol=2e-6)
    assert list(tmp_path.iterdir()) == [output]
    if not carry:
        narrow = tmp_path / "narrow.hdf5"
        assert predict("--input", sentences, "--hdf5", narrow, "--bf16") == 0
        with h5py.File(output) as file, h5py.File(narrow) as other:
            assert other["0"].dtype == "float32" and np.any(file["0"][2] != other["0"][2])
            np.testing.assert_allclose(file["0"], other["0"], atol=0.1)
    assert predict("--input", sentences, "--hdf5", output) == 1  # never overwritten
    assert "exists" in capsys.readouterr().err
