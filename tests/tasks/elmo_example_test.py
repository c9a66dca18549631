import importlib.util
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.support import golden
from tfnlp import models
from tfnlp.text import character_ids

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "elmo_tasks.py"
SENTENCES = [["Rain", "fell", "."], ["No"], ["It", "was", "a", "cold", "na\u00efve", "day", "."]]


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("elmo_tasks_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def encoder():
    return models.elmo(units=12, projection_size=6, filters=((1, 4), (2, 5)), num_highway=1)


def test_layers_are_those_of_each_sentence_alone(example, encoder):
    got = example.frozen_layers(encoder, SENTENCES)
    assert got.shape == (11, 3, 12) and got.dtype == np.float16
    start = 0
    for words in SENTENCES:
        outputs = encoder({"character_ids": character_ids(tf.constant([words]))})
        rows = got[start : start + len(words)]
        word = outputs["word_emb"][0].numpy()
        np.testing.assert_allclose(rows[:, 0], np.concatenate([word, word], -1), atol=2e-3)
        for j in (1, 2):
            want = outputs[f"lstm_outputs{j}"][0].numpy()
            np.testing.assert_allclose(rows[:, j], want, atol=2e-3)
        start += len(words)


def test_layers_on_disk_follow_weights_and_sentences(example, encoder, tmp_path):
    kept = example.frozen_layers(encoder, SENTENCES, tmp_path)
    np.testing.assert_array_equal(kept, example.frozen_layers(encoder, SENTENCES))
    (file,) = tmp_path.iterdir()
    written = file.stat().st_mtime_ns
    np.testing.assert_array_equal(example.frozen_layers(encoder, SENTENCES, tmp_path), kept)
    assert file.stat().st_mtime_ns == written  # read, not made again
    example.frozen_layers(encoder, SENTENCES[:2], tmp_path)
    encoder.weights[0].assign_add(tf.ones(encoder.weights[0].shape))
    changed = example.frozen_layers(encoder, SENTENCES, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    assert np.abs(changed.astype("float32") - kept).max() > 1e-3


def write_task(task, path):
    """A few sentences, in the format of the task."""
    if task == "tag":
        rows = [("Dogs", "NOUN"), ("bark", "VERB"), (".", "PUNCT")]
        lines = [
            "\t".join([str(number), word, "_", tag, *"______"])
            for number, (word, tag) in enumerate(rows, 1)
        ]
        path.write_text(("\n".join(lines) + "\n\n") * 6)
    else:
        path.write_text("1 a fine film\n0 a dull , long film\n" * 3)
    return str(path)


@pytest.mark.parametrize("task, seeds", [("tag", [1]), ("class", [1, 2])])
def test_the_script_prints_both_scores_for_each_seed(example, task, seeds, tmp_path, capsys):
    path = write_task(task, tmp_path / "data")
    arguments = [task, path, path, "--elmo", str(golden("elmo_bilm_tf")), "--elmo-at", "both"]
    arguments += ["--seeds", *map(str, seeds)]
    arguments += "--units 8 --embedding-size 8 --batch-size 2 --epochs 20".split()
    arguments += "--dropout 0 --elmo-dropout 0 --learning-rate 0.02".split()
    scores = example.main(arguments)
    # What was trained on is known by heart afterwards.
    right = [1.0 for _ in seeds]
    assert scores == {"without ELMo": right, "ELMo at both": right}
    printed = capsys.readouterr().out
    assert "units=8" in printed and "epochs=20.0" in printed
    *rows, last = [line.split() for line in printed.splitlines()[-1 - len(seeds) :]]
    assert [row[0] for row in rows] == list(map(str, seeds))
    assert all(row[1] == "1.0000" and "elmo_output:" in row for row in rows)
    mean = ["1.0000"] if len(seeds) == 1 else ["1.0000", "+-", "0.0000"]
    assert last == ["mean", *mean, *mean]
