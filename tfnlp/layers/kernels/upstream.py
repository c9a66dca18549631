"""The argument of a hand-written gradient on the backends of Keras."""

from collections.abc import Sequence
from typing import Any

from tfnlp.layers.types import Tensor


def upstream_gradients(given: Sequence[Any], upstream: Any) -> Sequence[Tensor]:
    """Return the gradients of several outputs, as `ops.custom_gradient` gives them to a function.

    Args:
        given: TensorFlow gives one for each output, JAX one tuple of all.
        upstream: PyTorch's, else None.
    """
    if upstream is not None:
        return upstream
    return given[0] if len(given) == 1 else given
