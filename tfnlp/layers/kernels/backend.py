"""Which form of a computation runs: TensorFlow's, JAX's, a TPU's, a GPU's, or the plain formula.

A kernel has a hand-written gradient, or is written as one compiler likes it, and stands beside the
plain formula. TensorFlow and JAX have kernels; on every other backend of Keras the formula runs.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor

# What Keras lacks on its backend; None: nothing of it is there.
if keras.backend.backend() == "tensorflow":
    from tfnlp import tensorflow_forms as forms
elif keras.backend.backend() == "jax":
    from tfnlp import jax_forms as forms
else:
    forms = None

_FOR_TPU = contextvars.ContextVar("for_tpu", default=False)


def has_kernels() -> bool:
    """Return whether the backend of Keras is one that the kernels are for."""
    return forms is not None


def beside(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of a kernel: without kernels `plain` is called in its place."""

    def decorated(kernel: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(kernel)
        def chosen(*arguments: Any, **options: Any) -> Any:
            return (kernel if has_kernels() else plain)(*arguments, **options)

        return chosen

    return decorated


def with_gradient(function: Callable[..., tuple[Any, Callable[..., Any]]]) -> Callable[..., Any]:
    """Return a function of tensors with the gradient that `function` returns beside its outputs.

    The gradient is a function of the gradient of the output, or of a tuple of those of several
    outputs.
    """

    @ops.custom_gradient
    def wrapped(*arrays: Tensor) -> tuple[Any, Callable[..., Any]]:
        outputs, gradient = function(*arrays)

        # TensorFlow gives one for each output, JAX one tuple of all.
        def any_gradient(*given: Any) -> Any:
            return gradient(given[0] if len(given) == 1 else given)

        return outputs, any_gradient

    return wrapped


@contextlib.contextmanager
def traced_for_tpu(yes: bool = True) -> Iterator[None]:
    """Return a scope in which TensorFlow's functions are traced for a TPU, or for another device.

    JAX chooses when a program is compiled, see `jax.lax.platform_dependent`. TensorFlow traces a
    function before it knows what it is compiled for: whoever traces it says so.
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

    All have the same results, up to rounding. `on_gpu`, if given, is taken in JAX's programs for a
    GPU of NVIDIA. The arrays may be nested structures.
    """
    if keras.backend.backend() == "jax":
        return forms.by_platform(on_tpu, elsewhere, *arrays, on_gpu=on_gpu)
    return (on_tpu if _FOR_TPU.get() else elsewhere)(*arrays)


def kept(x: Tensor) -> Tensor:
    """Return x, to be read in the backward pass; on a TPU it is stored in its own dtype.

    Of a bfloat16 sum whose next use is in float32 a TPU's compiler keeps the float32 sum, twice as
    many bytes.
    """
    return by_target(forms.barrier, lambda x: x, x)


def entries(x: Tensor, first: Tensor, count: int, axis: int = 0) -> Tensor:
    """Return `count` entries of x from `first` along an axis."""
    start, shape = [0] * len(x.shape), list(x.shape)
    start[axis], shape[axis] = first, count
    return ops.slice(x, start, shape)


def padded(x: Tensor, size: int, axis: int = 0) -> Tensor:
    """Return x with zeros behind it up to `size` entries along an axis."""
    if x.shape[axis] == size:
        return x
    padding = [(0, 0)] * len(x.shape)
    padding[axis] = (0, size - x.shape[axis])
    return ops.pad(x, padding)
