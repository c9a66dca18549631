"""Activations by the names that the papers and their checkpoints use.

Each takes a tensor and `training`, which decides how it is computed, not the result: in training
both GELUs use the kernels of `kernels/gelu.py`.
"""

from collections.abc import Callable

from keras import ops

from tfnlp.layers.kernels.gelu import trainable_gelu, trainable_gelu_tanh
from tfnlp.layers.types import Tensor


def gelu(x: Tensor, training: bool = False) -> Tensor:
    """Exact GELU, `x * Phi(x) = x/2 * (1 + erf(x / sqrt 2))` (Hendrycks & Gimpel 2016, eq. 1).

    BERT's released checkpoints were trained with this form.
    """
    return trainable_gelu(x) if training else ops.gelu(x, approximate=False)


def gelu_tanh(x: Tensor, training: bool = False) -> Tensor:
    """Return the tanh GELU, `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))` (ibid., section 2).

    GPT, GPT-2 and the first TensorFlow BERT code use this form.
    """
    return trainable_gelu_tanh(x) if training else ops.gelu(x, approximate=True)


def relu(x: Tensor, training: bool = False) -> Tensor:
    """`max(x, 0)`."""
    return ops.relu(x)


def tanh(x: Tensor, training: bool = False) -> Tensor:
    """`tanh x`."""
    return ops.tanh(x)


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu, "tanh": tanh}


def activation(name: str) -> Callable[..., Tensor]:
    """Return the function called `name`: one of "gelu" (erf), "gelu_tanh", "relu", "tanh".

    Raises:
        ValueError: for any other name.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation={name!r} is unknown; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]
