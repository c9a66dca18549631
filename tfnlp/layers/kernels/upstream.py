"""Hand-written gradients, as every backend of Keras takes them."""

from collections.abc import Callable
from typing import Any

from keras import ops

from tfnlp.layers.types import Tensor


def with_gradient(function: Callable[..., tuple[Any, Callable[..., Any]]]) -> Callable[..., Any]:
    """Return a function of tensors with the gradient that `function` returns beside its outputs.

    The gradient is a function of the gradient of the output, or of a tuple of those of several
    outputs. What `ops.custom_gradient` gives it depends on the backend.
    """

    @ops.custom_gradient
    def wrapped(*arrays: Tensor) -> tuple[Any, Callable[..., Any]]:
        outputs, gradient = function(*arrays)

        # TensorFlow gives one for each output, JAX one tuple of all, PyTorch its `upstream`.
        def any_gradient(*given: Any, upstream: Any = None) -> Any:
            if upstream is None:
                upstream = given[0] if len(given) == 1 else given
            return gradient(upstream)

        return outputs, any_gradient

    return wrapped
