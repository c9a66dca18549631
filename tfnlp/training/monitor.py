"""Speed of training, time spent waiting for data, a bar, profiles, the graph: for display only.

Nothing measured here enters the history or a checkpoint: those of a resumed run are the same, bit
for bit, as those of a run that was never stopped.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras

from tfnlp.bars import ProgressBar, short
from tfnlp.files import joined
from tfnlp.objectives.measure_names import in_words
from tfnlp.optional_tensorflow import tf

try:
    import resource
except ImportError:  # Windows
    resource = None

if keras.backend.backend() == "jax":
    from jax import profiler as jax_profiler

_WORK = ("tokens", "waited")  # names under `work/` in a step's totals
_HOST = "/device:CPU:0"
_MEMORY = 10.0  # seconds over which recent figures are averaged


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


class Monitor:
    """Sums of the training steps of one start of a run, and figures computed from them.

    - `tokens_per_second`: real tokens, padding left out, of all workers (see `Objective.tokens`);
    - `steps_per_second`;
    - `input_wait`: share of the time spent waiting for a batch;
    - `memory_gb`: most memory that a device, or on CPUs this process, has used, in 10^9 bytes.

    Figures that can't be measured are left out. Only time inside training steps counts, not
    evaluations and checkpoints, and not the first call, which traces and compiles.
    """

    def __init__(self, model: keras.Model, clock: Callable[[], float] = time.perf_counter) -> None:
        self._model, self._clock = model, clock
        self._row, self._recent = {}, {}
        self._started = self._taken = 0.0  # when the last call began, and its duration
        self._first = True

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
        kept = {name: x for name, x in totals.items() if not name.startswith("work/")}
        if self._first:
            self._first = False
            return kept
        seconds = self._taken
        new = {name: totals[f"work/{name}"] for name in _WORK if f"work/{name}" in totals}
        new.update(seconds=seconds, steps=totals["steps"])
        fading = math.exp(-seconds / _MEMORY)
        for name, value in new.items():
            self._row[name] = self._row.get(name, 0.0) + value
            self._recent[name] = self._recent.get(name, 0.0) * fading + value
        return kept

    def recent(self) -> dict[str, float]:
        """Return the speeds of the last seconds by name."""
        return _figures(self._recent)

    def row(self) -> dict[str, float]:
        """Return figures since `row` was last called by name."""
        sums, self._row = self._row, {}
        memory = most_memory(self._model)
        return {**_figures(sums), **({} if memory is None else {"memory_gb": memory / 1e9})}


def _figures(sums: Mapping[str, float]) -> dict[str, float]:
    if not sums:
        return {}
    seconds = max(sums["seconds"], 1e-9)
    figures = {"steps_per_second": sums["steps"] / seconds}
    if "tokens" in sums:
        figures["tokens_per_second"] = sums["tokens"] / seconds
    if "waited" in sums:
        figures["input_wait"] = min(1.0, sums["waited"] / seconds)
    return figures


def most_memory(model: keras.Model) -> int | None:
    """Return the most bytes that a device of a model has used; None: not known.

    On CPUs it is this process's memory.
    """
    value = model.variables[0].value
    if keras.backend.backend() == "jax":
        found = [device.memory_stats() for device in value.sharding.addressable_devices]
        if all(found):
            return max(s.get("peak_bytes_in_use", s.get("bytes_in_use", 0)) for s in found)
        return process_memory()
    devices = [tf.DeviceSpec.from_string(v.device) for v in getattr(value, "values", [value])]
    if all(device.device_type == "CPU" for device in devices):
        return process_memory()
    try:
        names = [f"{device.device_type}:{device.device_index}" for device in devices]
        return max(tf.config.experimental.get_memory_info(name)["peak"] for name in names)
    except (ValueError, tf.errors.OpError):  # not every device counts it
        return None


def process_memory() -> int | None:
    """Return the most bytes that this process has used; None: not known."""
    if resource is None:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


class Progress:
    """A display on stderr of the steps from `first` to `total`; without `enabled` of nothing."""

    def __init__(self, first: int, total: int, enabled: bool = True) -> None:
        self.bar = ProgressBar(first=first, total=total, unit="steps", disable=not enabled)

    def update(self, step: int, figures: Mapping[str, float]) -> None:
        """Move the bar to `step`; `figures` are floats by name, such as `loss`."""
        loss = [f"loss {figures['loss']:.3f}"] if "loss" in figures else []
        self.bar.figures = [*loss, _speed(figures)]
        self.bar.update(step - self.bar.n)

    def note(self, step: int, logs: Mapping[str, float]) -> None:
        """Print held-out values, without those of single labels."""
        values = {in_words(name): figure(x) for name, x in logs.items() if "/" not in name}
        if not values:
            return
        texts = [f"{name} {value}" for name, value in values.items()]
        self.bar.write(wrapped(f"step {step} held out: ", texts, self.bar.columns))

    def __enter__(self) -> Progress:
        self.bar.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.__exit__(*exception)


def _speed(figures: Mapping[str, float]) -> str:
    for name in ("tokens", "steps"):
        if f"{name}_per_second" in figures:
            return f"{short(figures[f'{name}_per_second'])} {name}/s"
    return ""


def figure(x: float) -> str:
    """Return a measure as 0.8532 or 45.2."""
    return f"{x:.4f}" if abs(x) < 10 else f"{x:.1f}"


def wrapped(head: str, values: list[str], columns: int | None) -> str:
    """Return values side by side behind `head`, in lines of fewer than `columns` columns."""
    lines = [head]
    for value in values:
        if columns and len(lines[-1]) + len(value) >= columns and lines[-1].strip():
            lines.append(" " * min(len(head), columns // 4))
        lines[-1] += f"{value}  "
    return "\n".join(line.rstrip() for line in lines)


class Profile:
    """A profile of whole calls into TensorFlow or JAX, which does not change the results.

    It is written to `directory/logs/plugins/profile`, where TensorBoard's Profile tab (the package
    tensorboard-plugin-profile) finds it. A call of several steps is one step there.

    Args:
        directory: the run's, or None.
        span: `(first, last)`: begin with the call that makes step number `first` of this start,
            end with the one that makes step number `last`; None profiles nothing. The first call
            traces and compiles, so begin after it.
        step: the first step of this start.
    """

    def __init__(self, directory: str | None, span: tuple[int, int] | None, step: int) -> None:
        self._span, self._running, self._done = span, False, span is None
        if span is None:
            return
        first, last = span
        if not 0 <= first < last:
            raise ValueError(f"profile={span} must be two numbers of steps, 0 <= first < last")
        if directory is None:
            raise ValueError(f"profile={span} needs a Trainer with a directory to write to")
        self._logs = joined(directory, "logs")
        self._begin, self._end = step + first, step + last
        # JAX writes what TensorFlow writes, into the same folder.
        if keras.backend.backend() == "jax":
            self._start, self._finish = jax_profiler.start_trace, jax_profiler.stop_trace
            self._mark = lambda n: jax_profiler.StepTraceAnnotation("train", step_num=n)
        else:
            profiler = tf.profiler.experimental
            self._start, self._finish = profiler.start, profiler.stop
            self._mark = lambda n: profiler.Trace("train", step_num=n, _r=1)

    @contextlib.contextmanager
    def of(self, step: int, end: int) -> Iterator[None]:
        """Profile, if it is due, the call in this block, which goes from `step` to `end`."""
        if self._done or (not self._running and step < self._begin):
            yield
            return
        if not self._running:
            self._start(self._logs)
            self._running = True
        with self._mark(step):
            yield
        if end >= self._end:
            self._stop()

    def __enter__(self) -> Profile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._running:
            self._stop()
        elif kind is None and not self._done:
            warnings.warn(
                f"profile={self._span}: the run ended before step {self._begin}, so nothing was "
                "profiled",
                stacklevel=3,
            )

    def _stop(self) -> None:
        self._finish()
        self._running, self._done = False, True


def conceptual_graph(model: keras.Model) -> str | None:
    """Return the layers of a model as TensorBoard draws them, JSON.

    It is `model.to_json()` with what TensorBoard can't read put in lists: outputs with names, and
    tensors that a layer takes by name. None for a model whose classes do not say how it is made
    again.
    """
    try:
        graph = json.loads(model.to_json())
    except Exception:  # of any `get_config`, also of layers of the user's
        return None
    _put_in_lists(graph)
    return json.dumps(graph)


def _put_in_lists(layer: dict[str, Any]) -> None:
    config = layer["config"]
    if isinstance(config.get("output_layers"), dict):
        config["output_layers"] = list(config["output_layers"].values())
    for node in layer.get("inbound_nodes", ()):
        node["args"] = list(_tensors([node["args"], node["kwargs"]]))
    for inner in config.get("layers", ()):
        _put_in_lists(inner)


def _tensors(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the tensors in the arguments of a layer."""
    if isinstance(value, Mapping) and value.get("class_name") == "__keras_tensor__":
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(inner)
