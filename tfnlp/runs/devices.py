"""The devices that a run trains on."""

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from tfnlp.locks import locked
from tfnlp.settings.options import Settings


def several_workers(config: Any) -> bool:
    """Return whether a run trains with other processes: TensorFlow must not have run before."""
    strategy, workers = (getattr(config, name, None) for name in ("strategy", "workers"))
    return strategy == "multi_worker" or bool(workers)


@contextlib.contextmanager
def devices(config: Settings) -> Iterator[Any]:
    """Yield the `tf.distribute` strategy, or the `JaxDevices`, that a config asks for.

    Only the first of several workers prints.
    """
    from tfnlp import training

    workers = config.workers and config.workers.split(",")
    name = "multi_worker" if several_workers(config) else config.strategy
    if name != config.strategy and config.strategy != "auto":
        raise ValueError(f"`workers` needs `strategy` multi_worker, not {config.strategy}")
    strategy = training.make_strategy(
        name,
        tpu=config.tpu,
        workers=workers,
        index=config.index,
        wait=config.wait,
        shard_optimizer=config.shard_optimizer,
    )
    group = training.workers_of(strategy)
    try:
        with contextlib.ExitStack() as stack:
            if not group.chief:
                silence = stack.enter_context(open(os.devnull, "w"))
                stack.enter_context(contextlib.redirect_stdout(silence))
            yield strategy
    except Exception as error:
        _report_memory(error)
        lost = error if isinstance(error, training.WorkerLost) else group.lost(error)
        if lost is None:
            raise
        raise lost from error


def alone(config: Any, strategy: Any) -> Any:
    """Return a context in which no other process writes to a run's folder; see `locked`.

    Of several workers the first one writes, so it alone locks the folder.
    """
    from tfnlp import training

    if not training.workers_of(strategy).chief:
        return contextlib.nullcontext()
    return locked(config.output)


def _report_memory(error: Exception) -> None:
    """Raise a MemoryError in one line for an engine's report that memory is full."""
    import tensorflow as tf

    said = str(error)
    full = isinstance(error, tf.errors.ResourceExhaustedError) and "OOM" in said
    # JAX's error, whose class can't be named where JAX is not installed.
    if full or (isinstance(error, RuntimeError) and said.startswith("RESOURCE_EXHAUSTED")):
        shape = re.search(r"shape\s*(\[[\d,]+\])", said)
        raise MemoryError(
            f"the memory of the device is full{f' (a tensor of {shape[1]})' if shape else ''}; "
            "choose a smaller batch, more `accumulation` or smaller sizes"
        ) from error


def check_batch(config: Any, strategy: Any) -> None:
    """Check that a batch divides by replicas and micro-batches."""
    replicas = strategy.num_replicas_in_sync
    accumulation = config.accumulation or 1
    parts = replicas * accumulation
    if config.batch_size % parts:
        raise ValueError(
            f"batch of {config.batch_size} does not divide by {replicas} devices x `accumulation` "
            f"{accumulation}; let `batch_size` be a multiple of {parts}"
        )
