"""Forms of a computation: one for programs that run on a TPU, one for a GPU, one for all others.

JAX chooses when a program is compiled, see `jax.lax.platform_dependent`. TensorFlow traces a
function before it knows what it is compiled for: whoever traces it says so.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import keras

from tfnlp.layers.types import Tensor

_FOR_TPU = contextvars.ContextVar("for_tpu", default=False)


@contextlib.contextmanager
def traced_for_tpu(yes: bool = True) -> Iterator[None]:
    """Return a scope in which TensorFlow's functions are traced for a TPU, or for another device.

    Args:
        yes: whether it is a TPU.
    """
    token = _FOR_TPU.set(yes)
    try:
        yield
    finally:
        _FOR_TPU.reset(token)


def by_target(
    on_tpu: Callable[..., Any],
    elsewhere: Callable[..., Any],
    *arrays: Tensor | Any,
    on_gpu: Callable[..., Any] | None = None,
) -> Any:
    """Return `on_tpu(*arrays)` in a program for a TPU, else `elsewhere(*arrays)`.

    Args:
        on_tpu, elsewhere: of the same results, up to rounding, and the same shapes and dtypes.
        *arrays: tensors, or nested structures of them.
        on_gpu: taken in JAX's programs for a GPU; None: `elsewhere`.
    """
    if keras.backend.backend() == "jax":
        from tfnlp.jax_forms import by_platform

        return by_platform(on_tpu, elsewhere, *arrays, on_gpu=on_gpu)
    return (on_tpu if _FOR_TPU.get() else elsewhere)(*arrays)
