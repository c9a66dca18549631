import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import golden
from tests.training.toy import toy_model
from tfnlp import training

RATE = 0.1


def small_model():
    """Weights `dense/kernel`, `dense/bias`, `norm/gamma`, `norm/beta`, none of them zero."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, name="dense"),
            keras.layers.LayerNormalization(name="norm"),
        ]
    )
    random = np.random.default_rng(0)
    model.set_weights([random.normal(size=w.shape) for w in model.get_weights()])
    return model


def run(optimizer, steps=3, scale=1.0):
    """Weights before, gradients by step, weights after; gradients of size `scale`."""
    model = small_model()
    variables = model.trainable_variables
    optimizer.build(variables)
    random = np.random.default_rng(1)
    before = [v.numpy() for v in variables]
    gradients, pure, slots = [], before, {k: v.numpy() for k, v in optimizer.slots.items()}
    for step in range(steps):
        gradients.append([random.normal(0, scale, v.shape).astype("float32") for v in variables])
        given = [tf.constant(g) for g in gradients[-1]], tf.constant(RATE), tf.constant(step)
        pure, slots = optimizer.updated(pure, slots, *given)
        optimizer.apply(*given)
    names, after = [v.path for v in variables], [v.numpy() for v in variables]
    # The kernels and the pure function, which other engines use, are the same formula.
    for name, a, b in zip(names, after, pure, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6, err_msg=name)
    for name, slot in optimizer.slots.items():
        np.testing.assert_allclose(slots[name], slot.numpy(), rtol=1e-5, atol=0, err_msg=name)
    return names, before, gradients, after


def adam_reference(w, gradients, decay, form="textbook", epsilon=1e-8, b1=0.9, b2=0.999):
    w, m, v = w.astype("float64"), 0.0, 0.0
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


FORMS = {
    "textbook": lambda: training.AdamW(weight_decay=0.3),
    "bert": lambda: training.bert_adamw(0.3),
    "epsilon hat": lambda: training.AdamW(weight_decay=0.3, epsilon=1e-6, epsilon_hat=True),
}


@pytest.mark.parametrize("scale", [1.0, 1e-8])  # with the small one epsilon counts
@pytest.mark.parametrize("form", FORMS)
def test_adamw_is_the_formula(form, scale):
    names, before, gradients, after = run(FORMS[form](), scale=scale)
    for i, name in enumerate(names):
        decay = 0.3 if name.endswith("dense/kernel") else 0.0
        epsilon = 1e-8 if form == "textbook" else 1e-6
        want = adam_reference(before[i], [g[i] for g in gradients], decay, form, epsilon)
        np.testing.assert_allclose(after[i], want, rtol=2e-5, atol=1e-5, err_msg=name)


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


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_lamb_is_the_formula(scale):
    names, before, gradients, after = run(training.LAMB(weight_decay=0.3), scale=scale)
    for i, name in enumerate(names):
        w, m, v = before[i].astype("float64"), 0.0, 0.0
        for t, g in enumerate((g[i] for g in gradients), 1):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            u = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
            ratio = 1.0
            if name.endswith("dense/kernel"):
                u = u + 0.3 * w
                ratio = np.linalg.norm(w) / np.linalg.norm(u)
            w = w - RATE * ratio * u
        np.testing.assert_allclose(after[i], w, rtol=2e-5, atol=1e-5, err_msg=name)


def test_adagrad_is_the_formula():
    names, before, gradients, after = run(training.Adagrad(initial_accumulator=1.0))
    for i, name in enumerate(names):
        w, a = before[i].astype("float64"), 1.0
        for g in (g[i] for g in gradients):
            a = a + g**2
            w = w - RATE * g / np.sqrt(a)
        np.testing.assert_allclose(after[i], w, rtol=2e-5, atol=1e-5, err_msg=name)


def test_default_exclusions_spare_every_bias_and_layer_norm_of_bert():
    optimizer = training.AdamW(weight_decay=0.5)
    model = toy_model(num_layers=2)
    optimizer.build(model.trainable_variables)
    decayed = {v.path for v, d in zip(optimizer.variables, optimizer.decays, strict=True) if d > 0}
    # Matrices and tables decay; vectors (biases, gamma, beta) don't.
    assert decayed == {v.path for v in model.trainable_variables if len(v.shape) == 2}
    assert len(decayed) == 3 + 2 * 4 + 3


def test_adam_is_the_transformers():
    for optimizer in (training.adam(), training.optimizer("adam", 0.0)):
        names, before, gradients, after = run(optimizer, scale=1e-8)
        for i, name in enumerate(names):
            gs = [g[i] for g in gradients]
            want = adam_reference(before[i], gs, 0.0, "epsilon hat", epsilon=1e-9, b2=0.98)
            np.testing.assert_allclose(after[i], want, rtol=2e-5, atol=1e-5, err_msg=name)
    assert training.optimizer("adam", 0.3).weight_decay == 0.3
