"""ELMo's pretraining: losses of windows."""

import numpy as np
import pytest
import tensorflow as tf

from tests.training.elmo_toy import UNSEEN, WORDS, toy_corpus, toy_task, toy_windows
from tfnlp import objectives

DIRECTIONS = ("forward", "backward")


@pytest.fixture(scope="module")
def task():
    return toy_task(resets=True)


@pytest.fixture(scope="module")
def plain():
    """A task without resets."""
    return toy_task(resets=False)


def run(task, batch):
    """Losses `[B, T]` by direction, and the new state, from a batch of numpy arrays."""
    rows = len(batch["weights"])
    shape = (rows, *task.state["state"].shape[1:])
    batch = {name: tf.constant(value) for name, value in batch.items()}
    batch["state"] = tf.zeros(shape)
    outputs = task.model(task.inputs(batch), training=False)
    return {d: outputs[f"{d}_losses"].numpy() for d in DIRECTIONS}, outputs["state"].numpy()


def joined(batches):
    return {name: np.concatenate([b[name] for b in batches], 1) for name in batches[0]}


@pytest.mark.slow
def test_resets_split_a_window_into_separate_sequences(task, plain):
    batch = joined([toy_windows(reset="sentence").batch(step) for step in range(2)])
    got, _ = run(task, batch)
    resets = batch.pop("resets")
    for row in range(3):
        starts = sorted({0, *np.flatnonzero(resets[row])})
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            alone = {name: x[row : row + 1, start:end] for name, x in batch.items()}
            want, _ = run(plain, alone)
            for d in DIRECTIONS:
                np.testing.assert_allclose(got[d][row, start:end], want[d][0], atol=2e-6)


@pytest.mark.slow
def test_distinct_words_and_all_words_give_the_same_vectors(plain):
    batch = toy_windows().batch(2)
    other = objectives.ElmoPretraining(plain.model, toy_corpus().characters(), 8, distinct=False)
    words = plain.inputs({**batch, "state": plain.state["state"]})["word_characters"]
    assert words.shape[0] == len(np.unique([batch["forward_ids"], batch["backward_ids"]]))
    # As long as the longest word with its two marks and the widest filter.
    used = [w for w in (*WORDS, *UNSEEN) if toy_corpus().lexicon.index(w) in batch["forward_ids"]]
    assert words.shape[1] == max(len(w.encode()) for w in used) + 2 + 3
    (one, state), (two, same) = run(plain, batch), run(other, batch)
    for d in DIRECTIONS:
        np.testing.assert_allclose(one[d], two[d], rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(state, same, rtol=0, atol=1e-5)


def test_perplexities_of_both_directions(task):
    found = task.report({"loss": 3.0, "forward_loss": 1.0, "backward_loss": 2.0})
    names = ("forward_perplexity", "backward_perplexity", "perplexity")
    np.testing.assert_allclose([found[name] for name in names], np.exp([1.0, 2.0, 1.5]))
    assert found["loss"] == 3.0
