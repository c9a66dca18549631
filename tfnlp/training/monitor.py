"""Speed of training and time spent waiting for data, for display only.

Nothing measured here enters the history or a checkpoint: those of a resumed run are the same, bit
for bit, as those of a run that was never stopped.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfnlp.training.peak import matmul_dtype, matmul_rate

_WORK = ("tokens", "flops", "waited")  # names under `work/` in a step's totals
_HOST = "/device:CPU:0"
_MEMORY = 10.0  # seconds over which recent figures are averaged
_AGAIN = 30.0  # seconds of training before the peak may be measured again
MEASURE_AFTER = 3.0  # seconds of training before the peak is measured; shorter runs don't


def timed_next(iterator: Iterator[Any], after: Sequence[tf.Tensor]) -> tuple[Any, tf.Tensor]:
    """Return the iterator's next batch, and the seconds spent waiting for it, float32.

    Call it in a `tf.function`. The clock starts when the tensors in `after`, of the step before,
    are computed. An accelerator may still be busy then, because steps are enqueued ahead of time;
    the seconds are those in which nothing could be enqueued.
    """
    with tf.control_dependencies(after):
        start = _now()
    with tf.control_dependencies([start]):
        batch = next(iterator)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        end = _now()
    with tf.device(_HOST):
        return batch, tf.cast(end - start, "float32")


def _now() -> tf.Tensor:
    with tf.device(_HOST):  # accelerators have no clock
        return tf.timestamp()


class TensorFlowMachine:
    """The devices of this process's replicas.

    Attributes:
        share: of all replicas.
    """

    def __init__(self, strategy: tf.distribute.Strategy, model: keras.Model) -> None:
        values = strategy.experimental_local_results(model.variables[0].value)
        self._strategy, self._devices = strategy, tuple(value.device for value in values)
        self.share = len(self._devices) / strategy.num_replicas_in_sync

    def matmul_rate(self, dtype: str, again: bool) -> float | None:
        """See `tfnlp.training.peak.matmul_rate`."""
        return matmul_rate(self._strategy, self._devices, dtype, again=again)

    def memory(self) -> int | None:
        """Return the most bytes that a device has used; None: not known."""
        return peak_memory(self._devices)


def _machine(strategy: Any, model: keras.Model) -> Any:
    if keras.backend.backend() == "jax":
        from tfnlp.training.engines.jax_machine import JaxMachine

        return JaxMachine(strategy)
    return TensorFlowMachine(strategy, model)


class Monitor:
    """Sums of the training steps of one start of a run, and figures computed from them.

    - `tokens_per_second`: real tokens, padding left out, of all workers (see `Task.tokens`);
    - `steps_per_second`;
    - `share_of_peak`: operations in the steps' matrix products (see `flops`) a second, over the
      rate that matrix products alone reach on the same devices (see `peak`);
    - `input_wait`: share of the time spent waiting for a batch;
    - `memory_gb`: most memory that a device, or on CPUs this process, has used, in 10^9 bytes.

    Figures that can't be measured are left out. Only time inside training steps counts, not
    evaluations and checkpoints, and not the first call, which traces and compiles.

    Args:
        strategy: the `tf.distribute.Strategy` or `JaxDevices`.
        model: the Keras model that trains.
        peak: whether to measure the peak (a few tenths of a second, usually once in a process).
        clock: function without arguments to seconds.
    """

    def __init__(
        self,
        strategy: Any,
        model: keras.Model,
        peak: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._machine, self._model, self._clock = _machine(strategy, model), model, clock
        self._measures_peak, self._peak, self._measured = peak, None, None
        self._row, self._recent = {}, {}
        self._started = self._taken = 0.0  # when the last call began, and its duration
        self._seconds = None  # of all calls but the first

    def __enter__(self) -> Monitor:
        """Start the clock; keep it open while `train_steps` runs and its totals are read."""
        self._started = self._clock()
        return self

    def __exit__(self, *exception: object) -> None:
        self._taken = self._clock() - self._started

    def take(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Add the totals under `work/` of that call.

        Returns:
            The other totals, which belong in the history.
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

    def _measure_peak(self) -> None:
        first = self._measured is None
        # A share above 1 shows that other processes were busy when the peak was measured.
        if first or (
            self._figures(self._recent).get("share_of_peak", 0.0) > 1.0
            and self._seconds - self._measured >= _AGAIN
        ):
            self._measured = self._seconds
            self._peak = self._machine.matmul_rate(matmul_dtype(self._model), again=not first)

    def recent(self) -> dict[str, float]:
        """Return figures of the last seconds by name."""
        return self._figures(self._recent)

    def row(self) -> dict[str, float]:
        """Return figures since `row` was last called by name."""
        sums, self._row = self._row, {}
        return self._figures(sums)

    def _figures(self, sums: Mapping[str, float]) -> dict[str, float]:
        figures = {}
        if sums:
            seconds = max(sums["seconds"], 1e-9)
            if "tokens" in sums:
                figures["tokens_per_second"] = sums["tokens"] / seconds
            figures["steps_per_second"] = sums["steps"] / seconds
            if "flops" in sums and self._peak:
                here = sums["flops"] * self._machine.share
                figures["share_of_peak"] = here / seconds / self._peak
            if "waited" in sums:
                figures["input_wait"] = min(1.0, sums["waited"] / seconds)
        memory = self._machine.memory()
        if memory is not None:
            figures["memory_gb"] = memory / 1e9
        return figures


def peak_memory(devices: Sequence[str]) -> int | None:
    """Return the most bytes that a device, or on CPUs this process, has used; None: not known."""
    specs = [tf.DeviceSpec.from_string(device) for device in devices]
    if all(spec.device_type == "CPU" for spec in specs):
        return process_memory()
    try:
        names = [f"{spec.device_type}:{spec.device_index}" for spec in specs]
        return max(tf.config.experimental.get_memory_info(name)["peak"] for name in names)
    except (ValueError, tf.errors.OpError):  # not every device counts it
        return None


def process_memory() -> int | None:
    """Return the most bytes that this process has used; None: not known."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
