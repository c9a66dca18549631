"""An ELMo from text to perplexities, neighbours, modules and bilm-tf's files."""

import functools
import json
import math
import os
import re

import h5py
import numpy as np
import pytest

import tfnlp as library
from tests.cli.command import RUN, error, tfnlp
from tests.made import options
from tests.support import golden, traced
from tfnlp.checkpoints import load_elmo
from tfnlp.text import character_ids, read_words

BILM = golden("elmo_bilm_tf")
PERPLEXITY = re.compile(r"perplexity ([\d.]+) \(forward ([\d.]+), backward ([\d.]+)\)")


def perplexities(printed):
    """Of each line that has some: (mean, forward, backward)."""
    return [tuple(map(float, match)) for match in PERPLEXITY.findall(printed)]


def evaluate(run, text, capsys, *more):
    capsys.readouterr()
    command = ["evaluate", "--model", run, "--input", text, "--layout", "lines", "--json"]
    assert tfnlp(*command, *more) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def pretrain(made):
    """A function of a text, a folder and options that pretrains like the toy, from new sizes."""
    training = {n: v for n, v in made("elmo").settings.items() if n in TRAINING}

    def pretrain(text, output, *more):
        command = ["pretrain", "elmo", "--input", text, "--output", output, *options(training)]
        return tfnlp(*command, "--layout", "lines", *more)

    return pretrain


TRAINING = ("batch_size", "window", "steps", "steps_per_call", "samples", "evaluate_batches")
TOY = ["--size", "mini", "--units", "12", "--projection-size", "8", "--num-layers", "1"]


@pytest.mark.slow
def test_a_run_and_its_evaluation(made, tmp_path, capsys):
    toy, run = made("elmo"), made("elmo").copied(tmp_path)
    assert sorted(os.listdir(run)) == RUN
    words = read_words(run / "vocab.txt")
    assert len(words) == 300 and words[:3] == ["<S>", "</S>", "<UNK>"]
    before = sorted(os.listdir(run / "checkpoints"))
    capsys.readouterr()
    assert tfnlp(*toy.command(run)) == 0  # nothing left to do but the last evaluation
    assert sorted(os.listdir(run / "checkpoints")) == before
    ((mean, forward, backward),) = perplexities(capsys.readouterr().out)
    assert 100 < mean < 600  # about as many as there are words
    found = evaluate(run, toy.valid, capsys)
    assert (round(found["perplexity"], 2), round(found["forward_perplexity"], 2)) == (mean, forward)
    assert round(found["backward_perplexity"], 2) == backward
    np.testing.assert_allclose(math.exp(found["loss"] / 2), found["perplexity"], rtol=1e-6)
    text = toy.valid.read_text(encoding="utf-8").split()
    lines = [line for line in toy.valid.read_text(encoding="utf-8").splitlines() if line]
    assert found["words"] == len(text) and found["sentences"] == len(lines)
    assert found["tokens"] == len(text) + len(lines)
    assert found["unknown_words"] == sum(word not in set(words) for word in text) > 50


@pytest.mark.slow
def test_changed_settings_are_refused_and_restart_starts_anew(made, tmp_path, capsys):
    toy, kept = made("elmo"), made("elmo").copied(tmp_path)
    assert tfnlp(*toy.command(kept, reset="never")) == 1
    line = error(capsys)
    assert "training.reset was sentence, now never" in line and f"--from {kept}" in line
    # Another text: the vocabulary is the run's, the corpus is not.
    assert tfnlp(*toy.command(kept), "--input", toy.valid) == 1
    assert "corpus.crc32" in error(capsys)
    # What is asked for can't be had: the run must survive.
    assert tfnlp(*toy.command(kept, restart=True), "--from", kept) == 1
    assert "--from and --output are the same folder" in error(capsys)
    assert (kept / "checkpoints" / "step-0000000004").exists()

    changes = dict(restart=True, reset=None, max_vocab=None, min_count=9)
    assert tfnlp(*toy.command(kept, **changes)) == 0
    config = json.loads((kept / "config.json").read_text())
    assert config["training"]["reset"] == "never"
    words = read_words(kept / "vocab.txt")
    assert len(words) == config["heads"]["vocab_size"] < 200
    text = toy.train.read_text(encoding="utf-8").split()
    assert all(text.count(word) >= 9 for word in words[3:])


@pytest.mark.long
def test_going_on_from_a_run(made, pretrain, tmp_path, capsys):
    toy, run = made("elmo"), tmp_path / "run"
    was = evaluate(toy.run, toy.valid, capsys)
    command = ["--valid", toy.valid, "--from", toy.run, "--reset", "sentence"]
    more = ["--learning-rate", "0.5", "--dropout", "0"]
    assert pretrain(toy.valid, run, *command, *more) == 0
    before, after = perplexities(capsys.readouterr().out)
    # It starts where the other run ended, and has seen this very text afterwards.
    np.testing.assert_allclose(before[0], was["perplexity"], atol=0.006)
    assert after[0] < before[0] - 1
    assert (run / "vocab.txt").read_bytes() == (toy.run / "vocab.txt").read_bytes()
    for option in (["--vocab", toy.run / "vocab.txt"], ["--units", "13"]):
        assert pretrain(toy.train, tmp_path / "other", *command, *option) == 1
        assert f"{option[0]} can't be" in error(capsys)
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_going_on_from_a_bilm_tf_checkpoint(made, pretrain, tmp_path, capsys):
    toy = made("elmo")
    command = ["--valid", toy.valid, "--from", BILM, "--reset", "document"]
    command += ["--learning-rate", "1e-6"]  # so that its weights can be told again
    assert pretrain(toy.train, tmp_path / "run", *command) == 0
    before, _ = perplexities(capsys.readouterr().out)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["arguments"]["units"], config["arguments"]["residual"]) == (64, False)
    size = len(read_words(tmp_path / "run" / "vocab.txt"))
    # Its file has no softmax over words; a new one knows next to nothing.
    assert size / 3 < before[0] < 3 * size
    for a, b in zip(*(library.load(x).encoder.trainable_weights for x in (tmp_path / "run", BILM)),
                    strict=True):  # fmt: skip
        np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.slow
def test_text_that_is_not_tokenized_yet(pretrain, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text('"No," she said, "it didn\'t."\nIt rained.\n\n' * 40, encoding="utf-8")
    command = [*TOY, "--valid", text, "--steps", "1", "--tokenize"]
    assert pretrain(text, tmp_path / "run", *command) == 0
    assert {"No", ",", "n't", '"', "rained"} < set(read_words(tmp_path / "run" / "vocab.txt"))
    # The run remembers; nothing of its own text is unknown to it.
    assert evaluate(tmp_path / "run", text, capsys)["unknown_words"] == 0


# --- Predictions


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """Thirty sentences, one a line, and an empty line."""
    texts = json.loads((BILM / "lm_embeddings_sentences.json").read_text())
    path = tmp_path_factory.mktemp("text") / "sentences.txt"
    lines = [sentence for text in texts for sentence in text]
    path.write_text("\n".join([*lines[:3], "", *lines[3:]]) + "\n", encoding="utf-8")
    return path


def predict(*arguments):
    return tfnlp("predict", "--model", BILM, *arguments)


@functools.cache
def encoder():
    return traced(load_elmo(BILM).encoder)


def unit_vectors(words):
    """Unit vectors of the first LSTM layer, `[n, D]`, of a sentence alone."""
    x = np.array(encoder()(character_ids([words]))["lstm_outputs1"][0])
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.slow
def test_neighbours_are_those_of_a_search_by_hand(sentences, capsys):
    query = "He said that the bank closed ."
    assert predict("--word", "bank", "--corpus", sentences, "--top", 3, query) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "He said that the [bank] closed ."
    target = unit_vectors(query.split())[4]
    scores = []
    for line in sentences.read_text(encoding="utf-8").split("\n"):
        if words := line.split():
            cosines = unit_vectors(words) @ target
            scores.append((cosines.max(), words[cosines.argmax()]))
    best = sorted(scores, reverse=True)[:3]
    for line, (score, word) in zip(shown[1:], best, strict=True):
        assert line.startswith(f"  {score:.3f}  ") and f"[{word}]" in line

    # Only the same word, and not the sentence itself.
    query = next(s for s in sentences.read_text("utf-8").split("\n") if " the " in s)
    assert predict("--word", "the", "--corpus", sentences, "--same", query) == 0
    shown = capsys.readouterr().out.splitlines()[1:]
    assert len(shown) == 5 and all("[the]" in line for line in shown)
    place = query.split().index("the")
    nearby = " ".join(query.split()[max(0, place - 3) : place])
    assert not any(nearby in line for line in shown)


@pytest.mark.slow
def test_hdf5_has_a_dataset_a_line(sentences, tmp_path, capsys):
    output = tmp_path / "layers.hdf5"
    assert predict("--input", sentences, "--hdf5", output, "--carry-state") == 0
    lines = sentences.read_text(encoding="utf-8").split("\n")[:-1]
    with h5py.File(output) as file:
        assert len(file) == len(lines) == 31
        for number, line in enumerate(lines):
            assert file[str(number)].shape == (3, len(line.split()), 32)
            assert file[str(number)].dtype == "float32"
        # bilm-tf's own recording of the first text, whose first three lines these are.
        with h5py.File(BILM / "lm_embeddings_0.hdf5") as recorded:
            for number in range(3):
                both = np.concatenate(list(recorded[str(number)]), -1)
                np.testing.assert_allclose(file[str(number)][2], both, atol=2e-6)
    assert predict("--input", sentences, "--hdf5", output) == 1  # never overwritten
