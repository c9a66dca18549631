"""Dense layers inside other layers, created and built in one call."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.kernels.add_bias import add_bias
from tfnlp.layers.kernels.product import product
from tfnlp.layers.types import Tensor


class _Dense(keras.layers.Dense):
    """Keras's layer, with products and gradients that XLA's compilers make fast."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        rows = len(inputs.shape) == 2
        flat = inputs if rows else ops.reshape(inputs, (-1, inputs.shape[-1]))  # [N, H]
        y = self.activation(add_bias(product(flat, ops.convert_to_tensor(self.kernel)), self.bias))
        return y if rows else ops.reshape(y, (*ops.shape(inputs)[:-1], self.units))


def built_dense(
    width: int,
    units: int,
    kernel_initializer: keras.Initializer,
    dtype: Any,
    name: str,
    activation: str | None = None,
    divisor: float = 1.0,
) -> keras.layers.Dense:
    """Return a `keras.layers.Dense` from `width` to `units` whose weights exist already.

    Args:
        width: size of the last axis of the inputs.
        units: size of the last axis of the outputs.
        kernel_initializer: copied through its config, so that kernels which share an unseeded
            initializer still start from different random numbers.
        dtype: a Keras dtype policy.
        name: name of the layer.
        activation: name of a Keras activation, or None.
        divisor: divides the initial values of the kernel.
    """
    fill = keras.initializers.get(keras.initializers.serialize(kernel_initializer))

    def divided(shape: tuple[int, ...], dtype: Any = None) -> Any:
        return fill(shape, dtype=dtype) / divisor

    layer = _Dense(
        units,
        activation=activation,
        kernel_initializer=fill if divisor == 1.0 else divided,
        dtype=dtype,
        name=name,
    )
    layer.build((None, width))
    return layer
