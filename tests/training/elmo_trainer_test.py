"""Training with a state that passes from step to step: any split of the batch, and resume."""

import numpy as np
import pytest
import tensorflow as tf

from tests.training.elmo_toy import state, toy_trainer, toy_windows
from tests.training.toy import assert_same, two_replicas, weights

pytestmark = pytest.mark.slow

STEPS = 4


def train(trainer, steps=STEPS, **arguments):
    return trainer.fit(
        toy_windows(),
        steps,
        **{"validation": toy_windows(4).evaluation_batches(2), **arguments},
        log_every=1,
        progress=False,
    )


@pytest.fixture(scope="module")
def one_device():
    trainer = toy_trainer()
    return train(trainer), trainer


VARIANTS = {
    "both": dict(strategy=two_replicas, accumulation=2),
    "XLA": dict(task=dict(distinct=False), jit_compile=True),  # each word, as often as it is read
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_way_to_take_a_step_gives_the_same_numbers(one_device, name):
    arguments = dict(VARIANTS[name])
    trainer = toy_trainer(arguments.pop("strategy", lambda: None)(), **arguments)
    history = train(trainer)
    expected, one = one_device
    # XLA has a tanh of its own.
    close = dict(rtol=1e-5, atol=1e-4 if name == "XLA" else 1e-5)
    assert np.abs(state(one)).max(axis=(1, 2)).min() > 0.1  # no row of it is zero
    np.testing.assert_allclose(state(trainer), state(one), **close)
    assert_same(weights(trainer), weights(one), **close)
    for a, b in zip(history.train, expected.train, strict=True):
        assert b["gradient_norm"] > 0.5  # so that clipping is at work
        np.testing.assert_allclose(list(a.values()), list(b.values()), **close)
    for key, value in (expected.validation[-1] if history.validation else {}).items():
        np.testing.assert_allclose(history.validation[-1][key], value, **close)


def test_training_losses_are_those_of_the_carried_state():
    # With a rate of zero, training only reads: one long window must give the same.
    trainer = toy_trainer(steps_per_call=2, rate=0.0)
    history = trainer.fit(toy_windows(), STEPS, log_every=STEPS, progress=False)
    windows = toy_windows()
    parts = [windows.batch(step) for step in range(STEPS)]
    long = {k: np.concatenate([part[k] for part in parts], 1) for k in parts[0]}
    zeros = tf.zeros_like(trainer.objective.state["state"])
    outputs = trainer.objective.model(
        trainer.objective.inputs({**{k: tf.constant(v) for k, v in long.items()}, "state": zeros})
    )
    for direction in ("forward", "backward"):
        want = outputs[f"{direction}_losses"].numpy().mean()
        np.testing.assert_allclose(history.train[-1][f"{direction}_loss"], want, rtol=1e-5)
    np.testing.assert_allclose(state(trainer), outputs["state"], atol=1e-5)


def test_evaluation_leaves_the_training_state_alone(one_device):
    _, trainer = one_device
    before = state(trainer)
    batches = toy_windows(2).evaluation_batches()
    first = trainer.evaluate(batches)
    np.testing.assert_array_equal(state(trainer), before)
    assert trainer.evaluate(batches) == first  # and it starts from zero each time
