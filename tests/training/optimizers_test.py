"""Optimizers against their formulas in numpy, and AdamW against torch's."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import golden
from tests.training.toy import toy_model
from tfnlp import training

RATE, DECAY = 0.1, 0.3


def small_model():
    """Weights `dense/kernel`, `dense/bias`, `norm/gamma`, `norm/beta`, none of them zero."""
    layers = [keras.layers.Dense(4, name="dense"), keras.layers.LayerNormalization(name="norm")]
    model = keras.Sequential([keras.Input((3,)), *layers])
    random = np.random.default_rng(0)
    model.set_weights([random.normal(size=w.shape) for w in model.get_weights()])
    return model


def adam(w, gradients, decay, form, epsilon, b1=0.9, b2=0.999):
    m, v = 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        if form == "bert":
            ratio = m / (np.sqrt(v) + epsilon)
        elif form == "epsilon hat":
            ratio = np.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + epsilon)
        else:
            ratio = m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + epsilon)
        w = w - RATE * (ratio + decay * w)
    return w


def lamb(w, gradients, decay):
    m, v = 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        u = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + decay * w
        w = w - RATE * (np.linalg.norm(w) / np.linalg.norm(u) if decay else 1.0) * u
    return w


def adagrad(w, gradients, decay):
    a = 1.0
    for g in gradients:
        a = a + g**2
        w = (1 - RATE * decay) * w - RATE * g / np.sqrt(a)
    return w


def transformers(w, gradients, decay):
    return adam(w, gradients, decay, "epsilon hat", 1e-9, b2=0.98)


FORMS = {
    "adamw": (lambda: training.AdamW(weight_decay=DECAY), ("textbook", 1e-8)),
    "bert_adamw": (lambda: training.bert_adamw(DECAY), ("bert", 1e-6)),
    "epsilon hat": (
        lambda: training.AdamW(weight_decay=DECAY, epsilon=1e-6, epsilon_hat=True),
        ("epsilon hat", 1e-6),
    ),
}
CASES = {
    name: (make, functools.partial(adam, form=form, epsilon=epsilon))
    for name, (make, (form, epsilon)) in FORMS.items()
}
CASES["lamb"] = lambda: training.LAMB(weight_decay=DECAY), lamb
CASES["adagrad"] = lambda: training.Adagrad(1.0, weight_decay=DECAY), adagrad
CASES["adam"] = lambda: training.adam(DECAY), transformers
CASES["adam by name"] = lambda: training.optimizer("adam", DECAY), transformers


@pytest.mark.parametrize("scale", [1.0, 1e-8])  # with the small one epsilon counts
@pytest.mark.parametrize("name", CASES)
def test_three_updates_are_those_of_the_formula(name, scale):
    make, formula = CASES[name]
    optimizer, variables = make(), small_model().trainable_variables
    optimizer.build(variables)
    random = np.random.default_rng(1)
    before = [v.numpy() for v in variables]
    gradients, pure, slots = [], before, {k: v.numpy() for k, v in optimizer.slots.items()}
    for step in range(3):
        gradients.append([random.normal(0, scale, v.shape).astype("float32") for v in variables])
        given = [tf.constant(g) for g in gradients[-1]], tf.constant(RATE), tf.constant(step)
        pure, slots = optimizer.updated(pure, slots, *given)
        optimizer.apply(*given)
    for i, variable in enumerate(variables):
        decay = DECAY if variable.path.endswith("dense/kernel") else 0.0
        want = formula(before[i].astype("float64"), [g[i] for g in gradients], decay)
        close = dict(rtol=2e-5, atol=1e-5, err_msg=variable.path)
        np.testing.assert_allclose(variable.numpy(), want, **close)
        # The kernels and the pure function, which other engines use, are the same formula.
        np.testing.assert_allclose(pure[i], variable.numpy(), **{**close, "atol": 1e-6})
    for path, slot in optimizer.slots.items():
        np.testing.assert_allclose(slots[path], slot.numpy(), rtol=1e-5, atol=0, err_msg=path)


def test_adamw_equals_torchs_in_every_step():
    """Gradients of sizes 1, 1e-3, ..., 1e-9."""
    want = json.loads(golden("adamw_torch.json").read_text())
    variable = keras.Variable(np.array(want["start"], "float32"), name="kernel")
    optimizer = training.AdamW(weight_decay=want["weight_decay"])
    optimizer.build([variable])
    for step, (gradient, weights) in enumerate(
        zip(want["gradients"], want["weights"], strict=True)
    ):
        rate = tf.constant(want["rate"])
        optimizer.apply([tf.constant(gradient)], rate, tf.constant(step))
        # A thousandth of an update, which is about as large as the rate.
        np.testing.assert_allclose(variable.numpy(), weights, rtol=0, atol=1e-3 * want["rate"])


def test_default_exclusions_spare_every_bias_and_layer_norm_of_bert():
    optimizer = training.AdamW(weight_decay=0.5)
    model = toy_model(num_layers=2)
    optimizer.build(model.trainable_variables)
    decayed = {v.path for v, d in zip(optimizer.variables, optimizer.decays, strict=True) if d > 0}
    # Matrices and tables decay; vectors (biases, gamma, beta) don't.
    assert decayed == {v.path for v in model.trainable_variables if len(v.shape) == 2}
    assert len(decayed) == 3 + 2 * 4 + 3
