"""The devices that a run trains on, and whether what it trains fits into their memory."""

import contextlib
import math
import os
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfnlp import training
from tfnlp.families.family import Family
from tfnlp.models import count_trained
from tfnlp.models.shapes import count_weights
from tfnlp.settings.options import Settings
from tfnlp.settings.training import several_workers


@contextlib.contextmanager
def devices(config: Settings) -> Iterator[Any]:
    """Yield the `tf.distribute` strategy, or the `JaxDevices`, that a config asks for.

    Only the first of several workers prints.
    """
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


def _report_memory(error: Exception) -> None:
    """Raise a MemoryError in one line for an engine's report that memory is full."""
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


_BYTES = 4  # float32
# Where the kernel says how much memory the processes of a container may take.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def total_memory() -> int:
    """Return the bytes of memory that this process may take at most."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _LIMITS:
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                limit = file.read().strip()
            if limit.isdigit():
                total = min(total, int(limit))
    return total


def check_rows(family: Family, config: Any, before: Any, workers: int = 1) -> None:
    """Check that the hidden states of one batch fit into memory.

    A training step keeps the output of every layer for the backward pass: `rows x tokens x layers x
    width` numbers of 4 bytes, or 2 in bfloat16 and float16. `family.row` names the arguments of
    that product, `before` the `Pretrained` to go on from. `workers` machines share a batch.
    """
    sizes = {}
    if before is not None:
        sizes = before.config
    elif family.sizes:
        sizes = family.sizes[config.size]
    values = {name: getattr(config, name, None) or sizes.get(name) or 1 for name in family.row}
    check_batch_memory(config, values, workers)


def check_batch_memory(config: Any, values: dict[str, int], workers: int = 1) -> None:
    """Check that a micro-batch of rows of `values` numbers each fits into memory."""
    rows = config.batch_size // ((config.accumulation or 1) * workers)
    factors = " x ".join(f"`{name}` {value:,}" for name, value in values.items())
    needed = rows * math.prod(values.values()) * (2 if config.dtype_policy() else _BYTES)
    what, parts = f"`batch_size` {config.batch_size:,}", f"{rows:,} rows x {factors} numbers"
    _check(needed, what, parts, "a smaller batch, or more `accumulation`")


def check_weights(family: Family, config: Any, arguments: dict[str, Any], heads: Any) -> None:
    """Check that weights, their gradients and the optimizer's numbers fit into memory."""

    def build(**given: Any) -> Any:
        encoder, pretrainer = family.build(given, heads, None)
        return encoder if pretrainer is None else pretrainer

    count = count_weights(build, arguments)
    check_trained(count, config.optimizer, f"a model of {count:,} weights")


def check_trained(count: int, optimizer: str, what: str) -> None:
    """Check that so many weights, their gradients and the optimizer's numbers fit into memory."""
    copies = 2 + len(training.optimizer(optimizer, 0.0).slot_names)
    parts = f"the weights, their gradients and {copies - 2} numbers of the optimizer for each"
    _check(count * copies * _BYTES, what, parts, "smaller sizes")


def _check(needed: int, what: str, parts: str, choose: str) -> None:
    if needed > total_memory():
        raise ValueError(
            f"{what} needs {needed / 1e9:,.1f} GB of memory or more: {parts}; this machine has "
            f"{total_memory() / 1e9:,.1f} GB. Choose {choose}"
        )


def shown_weights(model: Any) -> str:
    """Return how many weights a Keras model has, and how many of them are trained."""
    count, trained = model.count_params(), count_trained(model)
    shown = f"{count / 1e6:.2f} M weights"
    if trained == count:
        return shown
    return f"{shown}, {trained / 1e6:.3f} M of them trained ({100 * trained / count:.2f} %)"
