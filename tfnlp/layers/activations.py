"""Activations by the names that the papers and their checkpoints use.

Both GELUs have a form of their own for training. In inference TensorFlow finds the standard form
behind a dense layer and fuses it into the matrix product; in training nothing is fused, each
operation is a pass over memory, and bfloat16 `erf` and `exp` run one number at a time. So there
the work is done in float32 and the slope is taken on the way forward, from the same intermediate
values; the way back is one product.
"""

import math

from keras import ops


def gelu(x, training=False):
    """Exact GELU, `x * Phi(x) = x/2 * (1 + erf(x / sqrt 2))` (Hendrycks & Gimpel 2016, eq. 1).

    BERT's released checkpoints were trained with this form.
    """
    return _with_slope(_gelu_and_slope)(x) if training else ops.gelu(x, approximate=False)


def gelu_tanh(x, training=False):
    """tanh GELU, `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))` (ibid., section 2).

    GPT, GPT-2 and the first TensorFlow BERT code use this form.
    """
    return _with_slope(_gelu_tanh_and_slope)(x) if training else ops.gelu(x, approximate=True)


def relu(x, training=False):
    """`max(x, 0)`."""
    return ops.relu(x)


def tanh(x, training=False):
    """`tanh x`."""
    return ops.tanh(x)


def _gelu_and_slope(x):
    """`x Phi(x)` and `Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)`, with `z = x / sqrt 2`."""
    z = x * math.sqrt(0.5)
    phi = ops.erf(z) * 0.5 + 0.5
    return x * phi, phi + z * ops.exp(-0.5 * math.log(math.pi) - ops.square(z))


def _gelu_tanh_and_slope(x):
    """`y = x p` and `p + 2 y (1 - p) u'`, `p = (1 + tanh u) / 2`, `u = k x + 0.044715 k x^3`."""
    k = math.sqrt(2 / math.pi)
    square = ops.square(x)
    p = ops.tanh(x * (square * (0.044715 * k) + k)) * 0.5 + 0.5
    y = x * p
    return y, p + y * (1.0 - p) * (square * (6 * 0.044715 * k) + 2 * k)


def _with_slope(function):
    """`function`, which returns values and slopes in float32, as one of x with a gradient."""

    @ops.custom_gradient
    def applied(x):
        y, slope = function(ops.cast(x, "float32"))
        slope = ops.cast(slope, x.dtype)

        def gradient(*args, upstream=None):
            return (args[0] if upstream is None else upstream) * slope

        return ops.cast(y, x.dtype), gradient

    return applied


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu, "tanh": tanh}


def activation(name):
    """The function called `name`: one of "gelu" (erf), "gelu_tanh", "relu", "tanh".

    It takes a tensor and `training`, which decides how it is computed, not what.

    Raises:
        ValueError: for any other name.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation={name!r} is unknown; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]
