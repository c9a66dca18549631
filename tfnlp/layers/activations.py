"""Activations by the names that the papers and their checkpoints use."""

import math

from keras import ops


def gelu(x, training=False):
    """Exact GELU, `x * Phi(x) = x/2 * (1 + erf(x / sqrt 2))` (Hendrycks & Gimpel 2016, eq. 1).

    BERT's released checkpoints were trained with this form.
    """
    # In inference TensorFlow finds this form behind a dense layer and fuses it into the product.
    return _trained_gelu(x) if training else ops.gelu(x, approximate=False)


def gelu_tanh(x, training=False):
    """tanh GELU, `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))` (ibid., section 2).

    GPT, GPT-2 and the first TensorFlow BERT code use this form.
    """
    return ops.gelu(x, approximate=True)


@ops.custom_gradient
def _trained_gelu(x):
    """GELU in float32 whose gradient reuses what the forward pass has computed.

    `d/dx = Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)`.
    """
    x32 = ops.cast(x, "float32")
    z = x32 * math.sqrt(0.5)
    phi = ops.erf(z) * 0.5 + 0.5
    slope = ops.cast(phi + z * ops.exp(math.log(math.sqrt(1 / math.pi)) - ops.square(z)), x.dtype)

    def gradient(*args, upstream=None):
        dy = args[0] if upstream is None else upstream
        return dy * slope

    return ops.cast(x32 * phi, x.dtype), gradient


def relu(x, training=False):
    return ops.relu(x)


def tanh(x, training=False):
    return ops.tanh(x)


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu, "tanh": tanh}


def activation(name):
    """The function called `name`: one of "gelu" (erf), "gelu_tanh", "relu", "tanh".

    Raises:
        ValueError: for any other name.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation={name!r} is unknown; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]
