"""How fast a run trains and what it waits for; for the eye alone.

Nothing measured here enters the history or a checkpoint: those of a resumed run are the same, bit
for bit, as those of a run that was never stopped.
"""

import math
import sys
import time

import tensorflow as tf

from tfnlp.training.peak import matmul_dtype, matmul_rate

_WORK = ("tokens", "flops", "waited")  # what a step's totals hold under `work/`
_HOST = "/device:CPU:0"
_MEMORY = 10.0  # seconds that a recent figure looks back
_AGAIN = 30.0  # seconds of training until the peak may be measured again
MEASURE_AFTER = 3.0  # seconds of training before the peak is measured; shorter runs never pay


def timed_next(iterator, after):
    """The iterator's next batch, and the seconds, float32, that it was waited for.

    To be called in a `tf.function`. The clock starts when the tensors in `after`, of the step
    before, are there. An accelerator may then still be at work, for it is told of steps ahead of
    time; the seconds are those for which nothing could be given to it.
    """
    with tf.control_dependencies(after):
        start = _now()
    with tf.control_dependencies([start]):
        batch = next(iterator)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        end = _now()
    with tf.device(_HOST):
        return batch, tf.cast(end - start, "float32")


def _now():
    with tf.device(_HOST):  # accelerators have no clock
        return tf.timestamp()


class Monitor:
    """Sums up the training steps of one start of a run, and makes figures of the sums:

    - `tokens_per_second`: real tokens, padding left out, of all workers (see `Task.tokens`);
    - `steps_per_second`;
    - `share_of_peak`: operations in the steps' matrix products (see `flops`) a second, over the
      rate that matrix products alone reach on the same devices (see `peak`);
    - `input_wait`: share of the time for which no batch was there;
    - `memory_gb`: most that a device had in use, in 10^9 bytes; on CPUs most of this process.

    A figure that can't be had is left out. Time is that inside of training steps: evaluations and
    checkpoints don't count, and neither does the first call, which traces and compiles.

    Args:
        strategy: the `tf.distribute.Strategy`.
        model: the Keras model that trains.
        peak: whether to measure the peak (a few tenths of a second, as a rule once in a process).
        clock: function without arguments to seconds.
    """

    def __init__(self, strategy, model, peak=True, clock=time.perf_counter):
        self._strategy, self._model, self._clock = strategy, model, clock
        values = strategy.experimental_local_results(model.variables[0].value)
        self._devices = tuple(value.device for value in values)
        self._measures_peak, self._peak, self._measured = peak, None, None
        self._row, self._recent = {}, {}
        self._started = self._taken = 0.0  # when the last call began, and what it took
        self._seconds = None  # of all calls but the first

    def __enter__(self):
        """To be open while `train_steps` runs and its totals come."""
        self._started = self._clock()
        return self

    def __exit__(self, *exception):
        self._taken = self._clock() - self._started

    def take(self, totals):
        """Takes what it sums up out of the totals of that call, a dict of floats.

        Returns:
            the rest of them, which belongs in the history.
        """
        seconds = self._taken
        kept = {name: x for name, x in totals.items() if not name.startswith("work/")}
        if self._seconds is None:
            self._seconds = 0.0
            return kept
        self._seconds += seconds
        new = {name: totals[f"work/{name}"] for name in _WORK if f"work/{name}" in totals}
        new.update(seconds=seconds, steps=totals["steps"])
        fading = math.exp(-seconds / _MEMORY)
        for name, value in new.items():
            self._row[name] = self._row.get(name, 0.0) + value
            self._recent[name] = self._recent.get(name, 0.0) * fading + value
        if self._measures_peak and self._seconds >= MEASURE_AFTER:
            self._measure_peak()
        return kept

    def _measure_peak(self):
        first = self._measured is None
        # A share above 1 says that the peak was measured while others were at work.
        if first or (
            self._figures(self._recent).get("share_of_peak", 0.0) > 1.0
            and self._seconds - self._measured >= _AGAIN
        ):
            self._measured = self._seconds
            dtype = matmul_dtype(self._model)
            self._peak = matmul_rate(self._strategy, self._devices, dtype, again=not first)

    def recent(self):
        """Figures of the last seconds: a dict of floats by name."""
        return self._figures(self._recent)

    def row(self):
        """Figures since `row` was last called: a dict of floats by name."""
        sums, self._row = self._row, {}
        return self._figures(sums)

    def _figures(self, sums):
        figures = {}
        if sums:
            seconds = max(sums["seconds"], 1e-9)
            if "tokens" in sums:
                figures["tokens_per_second"] = sums["tokens"] / seconds
            figures["steps_per_second"] = sums["steps"] / seconds
            if "flops" in sums and self._peak:
                here = len(self._devices) / self._strategy.num_replicas_in_sync
                figures["share_of_peak"] = sums["flops"] * here / seconds / self._peak
            if "waited" in sums:
                figures["input_wait"] = min(1.0, sums["waited"] / seconds)
        memory = peak_memory(self._devices)
        if memory is not None:
            figures["memory_gb"] = memory / 1e9
        return figures


def peak_memory(devices):
    """Most bytes that one of the devices had in use, on CPUs this process; None: not known."""
    specs = [tf.DeviceSpec.from_string(device) for device in devices]
    if all(spec.device_type == "CPU" for spec in specs):
        return _process_memory()
    try:
        names = [f"{spec.device_type}:{spec.device_index}" for spec in specs]
        return max(tf.config.experimental.get_memory_info(name)["peak"] for name in names)
    except (ValueError, tf.errors.OpError):  # not every device keeps count
        return None


def _process_memory():
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
