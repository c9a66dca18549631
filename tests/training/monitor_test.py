"""Measurements that are only shown: speeds, the line of the progress bar, profiles."""

import glob
import io
import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training.toy import ToyBatches, assert_same, toy_trainer, two_replicas, weights
from tfnlp.training import monitor, peak, progress
from tfnlp.training.monitor import Monitor, peak_memory, timed_next
from tfnlp.training.profile import Profile

STEPS = 5
RUN = dict(log_every=2, evaluate_every=STEPS, validation=[ToyBatches(seed=9).batch(0)])
FIGURES = {"tokens_per_second", "steps_per_second", "share_of_peak", "input_wait", "memory_gb"}


def points(folder):
    """The points of the event file in a folder: dict of (tag, step) to value."""
    found = {}
    for path in glob.glob(str(folder / "events.*")):
        for record in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    return found


@pytest.fixture(scope="module")
def monitored(tmp_path_factory):
    """A run with all displays, summaries and a profile: (trainer, folder, its stderr)."""
    folder = tmp_path_factory.mktemp("run")
    trainer = toy_trainer(dropout=0.1, steps_per_call=2, directory=folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monitor, "MEASURE_AFTER", 0.0)
        patch.setattr(sys, "stderr", io.StringIO())
        trainer.fit(ToyBatches(), STEPS, **RUN, profile=(2, 4))
        return trainer, folder, sys.stderr.getvalue()


def test_monitoring_changes_no_bit(monitored):
    trainer, folder, _ = monitored
    plain = toy_trainer(dropout=0.1, steps_per_call=2)
    history = plain.fit(ToyBatches(), STEPS, **RUN, progress=False)
    assert_same(weights(plain), weights(trainer))
    assert history.state() == trainer.history.state()
    (path,) = glob.glob(str(folder / "checkpoints" / "step-*" / "state.json"))
    with open(path) as file:
        kept = json.loads(json.loads(file.read())["state"])["history"]
    assert kept == history.state()
    assert not any(name in json.dumps(kept) for name in ("work", "second", "wait", "memory"))


def test_tensorboard_has_every_figure(monitored):
    trainer, folder, _ = monitored
    found = points(folder / "logs")
    names = {"loss", "learning_rate", "gradient_norm", *FIGURES}
    for step in (4, STEPS):  # the first call, to step 2, isn't timed
        for name in names:
            assert np.isfinite(found[f"train/{name}", step]), name
        assert 0 <= found["train/input_wait", step] <= 1
        assert found["train/share_of_peak", step] > 0
        assert found["train/tokens_per_second", step] > found["train/steps_per_second", step]
    assert ("train/tokens_per_second", 2) not in found
    row = trainer.history.train[-1]
    np.testing.assert_allclose(found["train/loss", STEPS], row["loss"], rtol=1e-6)
    row = trainer.history.validation[-1]
    np.testing.assert_allclose(found["validation/loss", STEPS], row["loss"], rtol=1e-6)


def test_profile_is_written(monitored):
    _, folder, _ = monitored
    (path,) = glob.glob(str(folder / "logs" / "plugins" / "profile" / "*" / "*.xplane.pb"))
    with open(path, "rb") as file:
        profile = file.read()
    assert b"MatMul" in profile and b"step_num" in profile


def test_a_file_gets_lines(monitored):
    _, _, printed = monitored
    assert "step 5 held out: loss " in printed and "\r" not in printed
    lines = [line for line in printed.splitlines() if "held out" not in line]
    assert all(line and len(line) <= 110 for line in lines)
    assert lines[-1].startswith("100%") and "5/5 [" in lines[-1] and "] loss " in lines[-1]
    assert " tok/s" in lines[-1] and " GB" in lines[-1]


def test_held_out_values_are_broken_between_values():
    values = [f"masked_lm_accuracy_{i} 0.{i}234" for i in range(5)]
    lines = progress.wrapped("step 40 held out: ", values, 80).split("\n")
    assert all(len(line) < 80 for line in lines) and lines[0].startswith("step 40 held out: mask")
    assert "  ".join(line.removeprefix("step 40 held out:").strip() for line in lines) == (
        "  ".join(values)
    )


def test_speeds_are_sums_over_time():
    now = [0.0]
    seconds = Monitor(tf.distribute.get_strategy(), keras_model(), False, lambda: now[0])

    def call(duration, steps=2.0, tokens=100.0, waited=0.0):
        with seconds:
            now[0] += duration
        totals = {"steps": steps, "work/tokens": tokens, "work/waited": waited, "loss/x": 1.0}
        assert seconds.take(totals) == {"steps": steps, "loss/x": 1.0}
        now[0] += 1000.0  # time between calls is not training

    call(50.0)  # traces
    assert set(seconds.row()) == {"memory_gb"}
    call(1.0, waited=0.5)
    call(3.0, tokens=300.0, waited=0.1)
    row = seconds.row()
    del row["memory_gb"]
    want = {"tokens_per_second": 100.0, "steps_per_second": 1.0, "input_wait": 0.15}
    assert row == pytest.approx(want)
    for _ in range(100):
        call(1.0, tokens=7.0)
    assert seconds.recent()["tokens_per_second"] == pytest.approx(7.0, rel=1e-2)
    assert seconds.recent()["input_wait"] == pytest.approx(0.0, abs=1e-3)
    assert seconds.row()["tokens_per_second"] == pytest.approx(7.0)


def keras_model(dtype=None):
    x = keras.Input((4,))
    inner = keras.Sequential([keras.layers.Dense(3, dtype=dtype)])
    return keras.Model(x, inner(x))


def test_share_of_peak_is_that_of_this_workers_replicas(monkeypatch):
    asked = []

    def rate(strategy, *args, again):
        asked.append((*args, again))
        return 1e6 if again else 1e5

    monkeypatch.setattr(monitor, "matmul_rate", rate)
    strategy = two_replicas()
    with strategy.scope():
        model = keras_model("mixed_bfloat16")
    now = [0.0]
    speeds = Monitor(strategy, model, True, lambda: now[0])
    for _ in range(3):
        with speeds:
            now[0] += 2.0
        speeds.take({"steps": 1.0, "work/flops": 1e6})
    ((devices, dtype, again),) = asked  # once
    assert dtype == "bfloat16" and [d[-5:] for d in devices] == ["CPU:0", "CPU:1"] and not again
    assert speeds.recent()["share_of_peak"] == pytest.approx(5.0)  # the measured peak was too low
    for _ in range(50):
        with speeds:
            now[0] += 2.0
        speeds.take({"steps": 1.0, "work/flops": 1e6})
    assert asked[1:] == [(devices, dtype, True)]
    assert speeds.recent()["share_of_peak"] == pytest.approx(0.5)


def test_waiting_is_measured_apart_from_work():
    work = tf.random.stateless_normal((600, 600), (0, 1))

    def busy(x):
        for _ in range(8):
            x = tf.matmul(work, x) / 25.0
        return x

    @tf.function
    def share(iterator, works):
        waited, start = 0.0, tf.timestamp()
        result = tf.constant(0.0)
        for _ in tf.range(10):
            batch, seconds = timed_next(iterator, [result])
            waited += seconds
            result = tf.reduce_sum(busy(batch)) if works else batch[0, 0]
        with tf.control_dependencies([result]):
            return waited / tf.cast(tf.timestamp() - start, "float32")

    there = tf.data.Dataset.from_tensors(work).repeat()
    slow = there.map(busy, num_parallel_calls=1)
    assert share(iter(slow), works=False) > 0.5
    assert share(iter(there), works=True) < 0.5


def test_memory_is_the_processs_peak():
    def high_water():
        with open("/proc/self/status") as status:
            return next(int(row.split()[1]) for row in status if row.startswith("VmHWM")) * 1024

    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    before, found = high_water(), peak_memory(["/device:CPU:0"])
    # The kernel counts pages by processor and adds them up now and then.
    assert 0.98 * before <= found <= 1.02 * high_water()
    assert peak_memory(["/device:GPU:7"]) is None  # there is none to ask


def test_peak_is_measured_once(monkeypatch):
    monkeypatch.setattr(peak, "_measured", {})
    strategy = tf.distribute.get_strategy()
    rate = peak.matmul_rate(strategy, ("/device:CPU:0",), "float32")
    assert 1e8 < rate < 1e16

    def full(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "no room")

    monkeypatch.setattr(peak, "_measure", full)
    assert peak.matmul_rate(strategy, ("/device:CPU:0",), "float32") == rate
    assert peak.matmul_rate(strategy, ("/device:CPU:0",), "float32", again=True) == rate
    monkeypatch.setattr(peak, "_measure", lambda *_: 2 * rate)
    assert peak.matmul_rate(strategy, ("/device:CPU:0",), "float32", again=True) == 2 * rate
    monkeypatch.setattr(peak, "_measure", full)
    assert peak.matmul_rate(strategy, ("/device:CPU:0",), "bfloat16") is None
    assert peak.matmul_dtype(keras_model()) == "float32"
    assert peak.matmul_dtype(keras_model("mixed_bfloat16")) == "bfloat16"


LONG = {
    "loss": 10.3181,
    "perplexity": 30254.2,
    "masked_lm_accuracy": 0.503,
    "next_sentence_accuracy": 0.691,
    "masked_lm_loss": 8.0,  # not shown on the line
    "learning_rate": 4.1e-4,
    "gradient_norm": 0.834,
    "tokens_per_second": 21345.0,
    "steps_per_second": 21.27,
    "share_of_peak": 0.412,
    "input_wait": 0.018,
    "memory_gb": 1.234,
}


@pytest.mark.parametrize("columns", [20, 40, 80, 110, 150, 250])
@pytest.mark.parametrize("n, total", [(3000, 3000), (123456, 12345678)])
def test_the_line_fits(columns, n, total):
    bar = progress.Progress(0, total).bar
    bar.ncols, bar.dynamic_ncols = columns, None
    bar.n, bar.figures = n, LONG
    bar.start_t -= 50000.0  # hours
    line = str(bar)
    bar.disable = True
    head = f"{n}/{total} [13:53:"
    assert head in line and len(line) <= max(columns, line.index("]") + 1)
    assert ("%|" in line) == (columns == 250)


def test_the_most_important_figures_are_kept():
    line = "loss 10.318, ppl 3.0e4, mlm .503, nsp .691, 21.3k tok/s, 21.3 step/s, peak 41%, "
    line += "wait 2%, lr 4.1e-4, |g| 0.83, 1.2 GB"
    assert progress.fitted(LONG, 200) == line
    assert progress.fitted(LONG, 55) == "loss 10.318, ppl 3.0e4, mlm .503, 21.3k tok/s, peak 41%"
    assert progress.fitted(LONG, 25) == "loss 10.318, 21.3k tok/s"
    assert progress.fitted(LONG, 10) == "ppl 3.0e4"  # a short one may still fit
    numbers = {"loss": 0.0, "tokens_per_second": 950.0, "gradient_norm": 12345.0}
    assert progress.fitted(numbers, 99) == "loss 0.000, 950 tok/s, |g| 1.2e4"
    numbers = {"tokens_per_second": 1_240_000.0, "learning_rate": 0.0, "gradient_norm": 0.0031}
    assert progress.fitted(numbers, 99) == "1.24M tok/s, lr 0.0e0, |g| 3.1e-3"


def test_bad_profiles_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"profile=\(2, 4\) needs a Trainer with a directory"):
        Profile(None, (2, 4), 0)
    with pytest.raises(ValueError, match=r"profile=\(4, 4\) must be two numbers of steps"):
        Profile(str(tmp_path), (4, 4), 0)
    with pytest.warns(UserWarning, match="ended before step 12, so nothing was profiled"):
        with Profile(str(tmp_path), (2, 4), 10) as profile:
            with profile.of(10, 12):
                pass
    assert not list(tmp_path.iterdir())
