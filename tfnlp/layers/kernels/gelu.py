"""Both forms of GELU for training, with their slopes computed on the way forward.

In inference TensorFlow fuses the standard form into the matrix product before it. In training
nothing is fused: each operation is a pass over memory, and bfloat16 `erf` and `exp` run one number
at a time. So here values and slopes are float32 and come from the same intermediate results; the
gradient is one product. The plain formulas are `ops.gelu` with `approximate=False` and `True`.
"""

import functools
import math
from collections.abc import Callable

from keras import ops

from tfnlp.layers.kernels.target import by_target
from tfnlp.layers.kernels.upstream import with_gradient
from tfnlp.layers.types import Tensor


def trainable_gelu(x: Tensor) -> Tensor:
    """Return `x Phi(x)`, as `ops.gelu(x, approximate=False)`."""
    return _with_slope(functools.partial(by_target, _gelu_and_slope_on_tpu, _gelu_and_slope))(x)


def trainable_gelu_tanh(x: Tensor) -> Tensor:
    """Return `x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`, as `ops.gelu(x)`."""
    return _with_slope(_gelu_tanh_and_slope)(x)


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
