"""What a model and a batch need of this machine's memory, before they are made.

The bounds are lower ones: a run that they refuse can't work. One that they let through may still
run out of memory, which `devices` reports.
"""

import math
import os
from typing import Any

from tfnlp.families.family import Family

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
    that product.

    Args:
        family: What is trained.
        config: Its config.
        before: The `Pretrained` to go on from, or None.
        workers: How many machines share a batch.

    Raises:
        ValueError: if they do not fit.
    """
    from tfnlp import models

    sizes = {}
    if before is not None:
        sizes = before.config
    elif family.sizes:
        sizes = getattr(models, family.sizes[config.size])
    values = {name: getattr(config, name, None) or sizes.get(name) or 1 for name in family.row}
    check_batch_memory(config, values, workers)


def check_batch_memory(config: Any, values: dict[str, int], workers: int = 1) -> None:
    """Check that a micro-batch of rows of `values` numbers each fits into memory.

    Args:
        config: With `batch_size`, `accumulation` and a `PrecisionConfig`'s fields.
        values: The factors of a row, by name.
        workers: How many machines share a batch.

    Raises:
        ValueError: if it does not.
    """
    rows = config.batch_size // ((config.accumulation or 1) * workers)
    needed = rows * math.prod(values.values()) * (2 if config.dtype_policy() else _BYTES)
    if needed > total_memory():
        factors = " x ".join(f"`{name}` {value:,}" for name, value in values.items())
        raise ValueError(
            f"`batch_size` {config.batch_size:,} needs {gigabytes(needed)} of memory or more: "
            f"{rows:,} rows x {factors} numbers; this machine has {gigabytes(total_memory())}. "
            "Choose a smaller batch, or more `accumulation`"
        )


def check_weights(family: Family, config: Any, arguments: dict[str, Any], heads: Any) -> None:
    """Check that the weights of a model, their gradients and the optimizer's slots fit into memory.

    Args:
        family: What is trained.
        config: With the name of the `optimizer`.
        arguments, heads: What `family.build` takes.

    Raises:
        ValueError: if they do not.
    """
    from tfnlp import training
    from tfnlp.models.shapes import count_weights

    def build(**given: Any) -> Any:
        encoder, pretrainer = family.build(given, heads, None)
        return encoder if pretrainer is None else pretrainer

    count = count_weights(build, arguments)
    copies = 2 + len(training.optimizer(config.optimizer, 0.0).slot_names)
    needed = count * copies * _BYTES
    if needed > total_memory():
        raise ValueError(
            f"a model of {count:,} weights needs {gigabytes(needed)} of memory to be trained: "
            f"the weights, their gradients and {copies - 2} numbers of the optimizer for each; "
            f"this machine has {gigabytes(total_memory())}. Choose smaller sizes"
        )


def shown_weights(model: Any, optimizer: Any) -> str:
    """Return how many weights a model has, and in a second line what training a part of them saves.

    What training keeps is a number for each weight and, of those that are trained, one for the
    gradient and those of the optimizer.

    Args:
        model: A Keras model.
        optimizer: See `tfnlp.training.optimizer`.
    """
    from tfnlp.models import count_trained

    count, trained = model.count_params(), count_trained(model)
    shown, slots = f"{count / 1e6:.2f} M weights", 1 + len(optimizer.slot_names)
    if trained == count:
        return shown
    needed, most = (_BYTES * (count + n * slots) for n in (trained, count))
    return (
        f"{shown}, {trained / 1e6:.3f} M of them trained ({100 * trained / count:.2f} %)\n"
        f"weights, gradients, the optimizer's numbers: {needed / 1e6:,.0f} MB instead of "
        f"{most / 1e6:,.0f} MB"
    )


def gigabytes(count: int) -> str:
    """Return a number of bytes as text."""
    return f"{count / 1e9:,.1f} GB"
