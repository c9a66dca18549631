"""Whether a model and a batch can fit into this machine's memory, before they are made.

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
    that product, `before` the `Pretrained` to go on from. `workers` machines share a batch.
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
    """Check that a micro-batch of rows of `values` numbers each fits into memory."""
    rows = config.batch_size // ((config.accumulation or 1) * workers)
    factors = " x ".join(f"`{name}` {value:,}" for name, value in values.items())
    needed = rows * math.prod(values.values()) * (2 if config.dtype_policy() else _BYTES)
    what, parts = f"`batch_size` {config.batch_size:,}", f"{rows:,} rows x {factors} numbers"
    _check(needed, what, parts, "a smaller batch, or more `accumulation`")


def check_weights(family: Family, config: Any, arguments: dict[str, Any], heads: Any) -> None:
    """Check that weights, their gradients and the optimizer's numbers fit into memory."""
    from tfnlp import training
    from tfnlp.models.shapes import count_weights

    def build(**given: Any) -> Any:
        encoder, pretrainer = family.build(given, heads, None)
        return encoder if pretrainer is None else pretrainer

    count = count_weights(build, arguments)
    copies = 2 + len(training.optimizer(config.optimizer, 0.0).slot_names)
    parts = f"the weights, their gradients and {copies - 2} numbers of the optimizer for each"
    _check(count * copies * _BYTES, f"a model of {count:,} weights", parts, "smaller sizes")


def _check(needed: int, what: str, parts: str, choose: str) -> None:
    if needed > total_memory():
        raise ValueError(
            f"{what} needs {needed / 1e9:,.1f} GB of memory or more: {parts}; this machine has "
            f"{total_memory() / 1e9:,.1f} GB. Choose {choose}"
        )


def shown_weights(model: Any) -> str:
    """Return how many weights a Keras model has, and how many of them are trained."""
    from tfnlp.models import count_trained

    count, trained = model.count_params(), count_trained(model)
    shown = f"{count / 1e6:.2f} M weights"
    if trained == count:
        return shown
    return f"{shown}, {trained / 1e6:.3f} M of them trained ({100 * trained / count:.2f} %)"
