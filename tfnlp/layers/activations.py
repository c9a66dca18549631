"""Activations by the names that the papers and their checkpoints use.

Each takes a tensor and `training`, which decides how it is computed, not the result. In inference
TensorFlow fuses the standard form of GELU into the matrix product before it. In training nothing is
fused: each operation is a pass over memory, and bfloat16 `erf` and `exp` run one number at a time.
So there values and slopes are float32 and come from the same intermediate results; the gradient is
one product.
"""

import functools
import math
from collections.abc import Callable

from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.layers.kernels.backend import by_target, has_kernels, with_gradient


def gelu(x: Tensor, training: bool = False) -> Tensor:
    """Exact GELU, `x * Phi(x) = x/2 * (1 + erf(x / sqrt 2))` (Hendrycks & Gimpel 2016, eq. 1).

    BERT's released checkpoints were trained with this form.
    """
    if not (training and has_kernels()):
        return ops.gelu(x, approximate=False)
    return _with_slope(functools.partial(by_target, _gelu_and_slope_on_tpu, _gelu_and_slope))(x)


def gelu_tanh(x: Tensor, training: bool = False) -> Tensor:
    """Return the tanh GELU, `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))` (ibid., section 2).

    GPT, GPT-2 and the first TensorFlow BERT code use this form.
    """
    if not (training and has_kernels()):
        return ops.gelu(x, approximate=True)
    return _with_slope(_gelu_tanh_and_slope)(x)


def relu(x: Tensor, training: bool = False) -> Tensor:
    """`max(x, 0)`."""
    return ops.relu(x)


def tanh(x: Tensor, training: bool = False) -> Tensor:
    """`tanh x`."""
    return ops.tanh(x)


def _plain(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda x, training=False: function(x)


# Those after "tanh" are of other people's checkpoints.
ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": relu, "tanh": tanh}
_OTHERS = {
    "silu": ops.silu,
    "quick_gelu": lambda x: x * ops.sigmoid(1.702 * x),
    "clipped_gelu": lambda x: ops.clip(ops.gelu(x, approximate=False), -10.0, 10.0),
    "relu6": ops.relu6,
    "leaky_relu": functools.partial(ops.leaky_relu, negative_slope=0.01),
    "squared_relu": lambda x: ops.square(ops.relu(x)),
    "mish": lambda x: x * ops.tanh(ops.softplus(x)),
    "hard_silu": ops.hard_silu,
    "sigmoid": ops.sigmoid,
    "laplace": lambda x: 0.5 + 0.5 * ops.erf((x - 0.707107) / (0.282095 * math.sqrt(2.0))),
    "sqrt_softplus": lambda x: ops.sqrt(ops.softplus(x)),
    "linear": lambda x: x,
}
ACTIVATIONS |= {name: _plain(function) for name, function in _OTHERS.items()}


def activation(name: str) -> Callable[..., Tensor]:
    """Return the function called `name`: one of "gelu" (erf), "gelu_tanh", "relu", "tanh", "silu".

    `ACTIVATIONS` has more.

    Raises:
        ValueError: for any other name.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation={name!r} is unknown; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def _gelu_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return `x Phi(x)` and `Phi(x) + x exp(-x^2 / 2) / sqrt(2 pi)`, with `z = x / sqrt 2`."""
    z = x * math.sqrt(0.5)
    phi = ops.erf(z) * 0.5 + 0.5
    return x * phi, phi + z * ops.exp(-0.5 * math.log(math.pi) - ops.square(z))


def _gelu_and_slope_on_tpu(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `_gelu_and_slope` does, the slope up to 2e-7 with one exponential.

    `Phi(-|x|) = P(t) exp(-x^2 / 2) / 2`, `t = 1 / (1 + 0.3275911 |x| / sqrt 2)`, P of degree 5
    (Abramowitz & Stegun 1964, 7.1.26), takes half as many operations as `erf`. The compiler makes
    values with `erf` and slopes with `exp` parts of the products that read them, and keeps x alone.
    """
    e = ops.exp(ops.square(x) * -0.5)
    t = 1.0 / (ops.abs(x) * (0.3275911 * math.sqrt(0.5)) + 1.0)
    p = t * 1.061405429 - 1.453152027
    for coefficient in (1.421413741, -0.284496736, 0.254829592):
        p = p * t + coefficient
    tail = p * t * (e * 0.5)
    slope = ops.where(x < 0, tail, 1.0 - tail) + x * e * (1 / math.sqrt(2 * math.pi))
    return _gelu_and_slope(x)[0], slope


def _gelu_tanh_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return `y = x p` and `p + 2 y (1 - p) u'`.

    `p = (1 + tanh u) / 2`, `u = k x + 0.044715 k x^3`.
    """
    k = math.sqrt(2 / math.pi)
    square = ops.square(x)
    p = ops.tanh(x * (square * (0.044715 * k) + k)) * 0.5 + 0.5
    y = x * p
    return y, p + y * (1.0 - p) * (square * (6 * 0.044715 * k) + 2 * k)


def _with_slope(
    function: Callable[[Tensor], tuple[Tensor, Tensor]],
) -> Callable[[Tensor], Tensor]:
    """Return `function`, which returns values and slopes in float32, with a gradient."""

    @with_gradient
    def applied(x: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        y, slope = function(ops.cast(x, "float32"))
        slope = ops.cast(slope, x.dtype)

        def gradient(dy: Tensor) -> Tensor:
            return dy * slope

        return ops.cast(y, x.dtype), gradient

    return applied
