"""Dynamic scaling of the loss: the rule, skipped updates, both engines, checkpoints, float16."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.layers.gradients import gradients, without_rows
from tests.support import ROOT, run_python
from tests.training import toy
from tests.training.toy import two_replicas, weights
from tfnlp import training
from tfnlp.training.engines.step import micro_batch_loss

BATCH, STEPS = 8, 16
SCALING = training.LossScaling(initial=2.0**15, interval=3)
# Targets of these steps are so far off that the scaled gradient is above 65504.
FAR = {3: 64.0, 4: 64.0, 9: 300.0}


def batch(step):
    """Inputs and targets with few bits: sums of them are exact."""
    rng = np.random.default_rng([5, step])
    x = rng.integers(-2, 3, (BATCH, 2)).astype("float32")
    y = rng.integers(-4, 5, BATCH).astype("float32") / 4 + FAR.get(step, 0.0)
    return {"x": x, "targets": y}


class Batches:
    """The batches as a function of the step."""

    batch_size = BATCH

    def dataset(self, first_step=0):
        parts = [batch(step) for step in range(first_step, STEPS)]
        return tf.data.Dataset.from_tensor_slices({k: [p[k] for p in parts] for k in parts[0]})


class Half(keras.layers.Layer):
    """`x w` in float32, through float16: its gradient is rounded to float16, too.

    With `counts` it counts its calls while training, as a running average would.
    """

    def __init__(self, counts, **kwargs):
        super().__init__(**kwargs)
        self.counts = counts

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1],), initializer="zeros")
        if self.counts:
            self.calls = self.add_weight(name="calls", initializer="zeros", trainable=False)

    def call(self, inputs, training=False):
        if training and self.counts:
            self.calls.assign(self.calls + 1.0)
        y = ops.sum(inputs * self.kernel, -1)
        return ops.cast(ops.cast(y, "float16"), "float32")


def half_squares(targets, outputs):
    return 0.5 * ops.square(outputs - targets)


def optimizer_of(name):
    if name == "sgd":
        return keras.optimizers.SGD(0.125, momentum=0.5)
    return training.AdamW(weight_decay=0.0)


class Rows(keras.callbacks.Callback):
    """What each step logged, and what it left behind."""

    def __init__(self, trainer):
        super().__init__()
        self.trainer, self.rows = trainer, []

    def on_train_batch_end(self, batch, logs=None):
        variables = {k: v.numpy().tolist() for k, v in self.trainer.engine.variables().items()}
        self.rows.append({"step": batch, **logs, "variables": variables})


def make_trainer(strategy=None, optimizer="sgd", **arguments):
    """A trainer of the toy."""
    strategy = strategy or training.default_strategy()
    with strategy.scope():
        x = keras.Input((2,), name="x")
        counts = strategy.num_replicas_in_sync == 1
        model = keras.Model({"x": x}, Half(counts, name="half")(x), name="toy")
        made = optimizer_of(optimizer)
    return training.Trainer(
        model,
        made,
        None if optimizer == "sgd" else 0.125,
        loss=half_squares,
        strategy=strategy,
        clip_norm=None,
        loss_scaling=SCALING,
        **arguments,
    )


def train(steps=STEPS, steps_per_call=1, **arguments):
    """Return the rows of all calls, and the history."""
    trainer = make_trainer(steps_per_call=steps_per_call, **arguments)
    rows = Rows(trainer)
    history = trainer.fit(
        Batches(),
        steps,
        log_every=4,
        checkpoint_every=steps_per_call,
        evaluate_every=STEPS,
        callbacks=[rows],
        progress=False,
    )
    return {"rows": rows.rows, "history": history.train}


SCALE = [f"loss_scaling/{name}" for name in ("scale", "finite", "skipped")]


def rule(flags, initial=2.0**15, interval=2000, least=1.0, most=2.0**24):
    """`(S, updates in a row, skipped)` after each step, from whether its gradients were finite."""
    scale, row, skipped, found = initial, 0, 0, []
    for finite in flags:
        if not finite:
            scale, row, skipped = max(scale / 2, least), 0, skipped + 1
        else:
            row += 1
            if row == interval:
                scale, row = min(scale * 2, most), 0
        found.append((scale, row, skipped))
    return found


@pytest.mark.parametrize("interval, finite_share", [(1, 0.5), (3, 0.8)])
def test_the_rule(interval, finite_share):
    flags = np.random.default_rng(0).random(200) < finite_share
    scaling = training.LossScaling(interval=interval, least=2.0**12, most=2.0**17)
    state, found = {k: v.numpy() for k, v in scaling.variables().items()}, []
    for finite in flags:
        state = {k: np.asarray(v) for k, v in scaling.following(state, finite).items()}
        found.append(tuple(state[name].item() for name in ("scale", "finite", "skipped")))
    expected = rule(flags, interval=interval, least=2.0**12, most=2.0**17)
    assert found == expected
    assert len({scale for scale, _, _ in expected}) > 2


def reference(optimizer, steps=STEPS):
    """The toy in numpy: a row for each step, with what the step left behind."""
    w, m, v, updates, calls = np.zeros(2), np.zeros(2), np.zeros(2), 0, 0
    scale, row, rows = SCALING.initial, 0, []
    for step in range(steps):
        x, y = batch(step)["x"].astype("float64"), batch(step)["targets"]
        error = (x @ w).astype("float16").astype("float64") - y
        with np.errstate(over="ignore", invalid="ignore"):
            upstream = (scale * error / BATCH).astype("float16").astype("float64")
            gradient = (x * upstream[:, None]).sum(0) / scale  # inf times 0 is not a number
        finite = np.isfinite(gradient).all()
        rows.append({"loss": (error**2).mean() / 2, "loss_scale": scale, "skipped": 1.0 - finite})
        rows[-1]["gradient_norm"] = np.sqrt((gradient**2).sum()) if finite else 0.0
        if finite:
            updates, calls, row = updates + 1, calls + 1, row + 1
            if optimizer == "sgd":
                m = 0.5 * m - 0.125 * gradient
                w = w + m
            else:
                m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
                first, second = m / (1 - 0.9**updates), v / (1 - 0.999**updates)
                w = w - 0.125 * first / (np.sqrt(second) + 1e-8)
            if row == SCALING.interval:
                scale, row = 2 * scale, 0
        else:
            scale, row = scale / 2, 0
        state = dict(zip(SCALE, (scale, row, step + 1 - updates), strict=True))
        rows[-1]["variables"] = {"model/half/kernel": w, "model/half/calls": calls, **state}
    return rows


def compare(found, expected, counts=True, tolerance=1e-5):
    assert [row["step"] for row in found] == list(range(len(expected)))
    for a, b in zip(found, expected, strict=True):
        assert ("gradient_norm" in a) == (not b["skipped"])  # none was applied
        for name in {"loss", "gradient_norm", "loss_scale", "skipped"} & set(a):
            np.testing.assert_allclose(a[name], b[name], rtol=tolerance, atol=tolerance)
        for name, value in b["variables"].items():
            if counts or not name.endswith("calls"):
                got = a["variables"][name]
                np.testing.assert_allclose(got, value, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_skipped_updates_change_nothing(optimizer):
    expected = reference(optimizer)
    skipped = [i for i, row in enumerate(expected) if row["skipped"]]
    assert set(FAR) <= set(skipped) and len(skipped) < STEPS / 2
    assert max(row["loss_scale"] for row in expected) > SCALING.initial  # it grew, too
    found = train(optimizer=optimizer)
    compare(found["rows"], expected)
    for step in skipped:  # to the bit: weights, slots, running state
        before, after = (found["rows"][i]["variables"] for i in (step - 1, step))
        kept = [name for name in after if name not in SCALE and name != "step"]
        assert len(kept) > 3
        assert {name: before[name] for name in kept} == {name: after[name] for name in kept}
    # A row of the history averages the norms of the updates that were made.
    for i, row in enumerate(found["history"]):
        steps = [r for r in expected[4 * i : 4 * i + 4] if not r["skipped"]]
        norms = [r["gradient_norm"] for r in steps] or [0.0]
        np.testing.assert_allclose(row["gradient_norm"], np.mean(norms), rtol=1e-5)


@pytest.mark.parametrize(
    "optimizer, split", [("adam", "accumulation"), ("adam", "jit_compile"), ("sgd", "strategy")]
)
def test_every_split_of_the_batch_skips_the_same(optimizer, split):
    value = {"accumulation": 2, "jit_compile": True, "strategy": two_replicas}[split]
    found = train(optimizer=optimizer, **{split: value() if split == "strategy" else value})
    compare(found["rows"], reference(optimizer), counts=split == "jit_compile")


@pytest.mark.slow
def test_a_resumed_run_is_the_same_to_the_bit(tmp_path):
    whole = train()["rows"]
    middle = max(FAR) + 2  # S and the updates in a row differ from those of a new run
    train(steps=middle, directory=tmp_path)
    resumed = train(directory=tmp_path)["rows"]
    assert resumed == whole[middle:]
    state = whole[middle - 1]["variables"]
    assert state[SCALE[0]] != SCALING.initial and state[SCALE[1]] and state[SCALE[2]]


def test_a_loss_that_is_not_finite_is_left_out_of_the_mean(monkeypatch):
    monkeypatch.setitem(FAR, 6, 1e25)  # its square is not a float32
    expected, found = reference("sgd"), train()
    assert expected[6]["skipped"] and "loss" not in found["rows"][6]
    compare(found["rows"], expected)
    for i, row in enumerate(found["history"]):
        losses = [expected[n]["loss"] for n in range(4 * i, 4 * i + 4) if n != 6]
        np.testing.assert_allclose(row["loss"], np.mean(losses), rtol=1e-5)


def test_one_overflow_at_the_least_scale_is_skipped(monkeypatch):
    monkeypatch.setitem(FAR, 6, 1e25)
    monkeypatch.setitem(globals(), "SCALING", training.LossScaling(1.0, most=1.0))
    rows = train()["rows"]
    assert [row["step"] for row in rows if row["skipped"]] == [6] and len(rows) == STEPS


def test_gradients_that_no_scale_helps_are_an_error():
    class Far:
        batch_size = BATCH

        def dataset(self, first_step=0):
            x, y = np.ones((50, BATCH, 2), "float32"), np.full((50, BATCH), 1e6, "float32")
            return tf.data.Dataset.from_tensor_slices({"x": x, "targets": y})

    trainer = make_trainer(steps_per_call=10)
    with pytest.raises(FloatingPointError, match="although the loss is no longer scaled"):
        trainer.fit(Far(), 50, progress=False)
    assert not np.any(weights(trainer)[0])


@pytest.mark.slow
def test_scaling_is_on_for_float16_alone():
    assert toy.toy_trainer()._settings["loss_scaling"] is None
    keras.config.set_dtype_policy("mixed_bfloat16")
    assert toy.toy_trainer()._settings["loss_scaling"] is None
    keras.config.set_dtype_policy("mixed_float16")
    assert toy.toy_trainer()._settings["loss_scaling"]["initial"] == 2.0**15
    assert toy.toy_trainer(loss_scaling=False)._settings["loss_scaling"] is None
    keras.config.set_dtype_policy("float32")
    assert toy.toy_trainer(loss_scaling=True)._settings["loss_scaling"]["interval"] == 2000


@pytest.mark.slow
def test_scaled_gradients_of_float16_are_near_those_of_float32():
    """Closer than 8 bits would be, for every weight; 0.009 was seen."""
    trainer = toy.toy_trainer()
    trainer.fit(toy.ToyBatches(), 10, progress=False)
    found = {}
    for dtype, scale in (("float32", 1.0), ("mixed_float16", 2.0**10)):
        keras.config.set_dtype_policy(dtype)
        task = toy.toy_trainer().objective
        for variable, value in zip(task.model.trainable_variables, weights(trainer), strict=True):
            variable.assign(value)
        batch = next(iter(toy.ToyBatches().dataset(3)))
        given = task, batch, task.targets(batch), [], 1, scale
        _, slopes = gradients(
            lambda given=given: micro_batch_loss(*given)[0], task.model.trainable_variables
        )
        found[dtype] = [g.numpy() / scale for g in without_rows(slopes)]
    for variable, half, full in zip(
        task.model.trainable_variables, found["mixed_float16"], found["float32"], strict=True
    ):
        error = np.linalg.norm(half - full) / np.linalg.norm(full)
        assert error < 0.03, f"{variable.path}: {error}"


@pytest.mark.long
def test_jax_is_the_same():
    code = "import json; from tests.training import loss_scaling_test as toy; "
    code += "print(json.dumps(toy.train(optimizer='adam')))"
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    found = json.loads(run_python(code, env=env, folder=ROOT).stdout.splitlines()[-1])
    compare(found["rows"], reference("adam"))
    ours = train(optimizer="adam")
    compare(found["rows"], ours["rows"], tolerance=1e-6)
    for a, b in zip(found["history"], ours["history"], strict=True):
        assert a.keys() == b.keys()
        np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=1e-6)
