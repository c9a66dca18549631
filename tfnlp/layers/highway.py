"""Highway layers: part of the input is transformed, the rest is carried through."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.activations import activation as activation_of
from tfnlp.layers.base import Layer
from tfnlp.layers.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class Highway(Layer):
    """`y = g f(x W_t + b_t) + (1 - g) x` with the gate `g = sigmoid(x W_c + b_c)`.

    Srivastava et al. 2015, eq. 3. Names and direction of the gate are those of bilm-tf, whose
    `W_carry` opens the *transformed* branch; with `b_c = -2` most of the input is carried at first.

    Args:
        activation: f, "relu" or "tanh".
        carry_bias: initial value of b_c.

    Shapes: `[..., D]` to `[..., D]` in the compute dtype.

    Raises:
        ValueError: for an unknown activation.
    """

    def __init__(self, activation: str = "relu", carry_bias: float = -2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activation
        self.carry_bias = carry_bias
        self._f = activation_of(activation)

    def build(self, input_shape: Shape) -> None:
        size = input_shape[-1]
        constant = keras.initializers.Constant(self.carry_bias)
        self.transform_kernel = self._kernel("transform_kernel", size)
        self.transform_bias = self.add_weight(
            name="transform_bias", shape=(size,), initializer="zeros"
        )
        self.carry_kernel = self._kernel("carry_kernel", size)
        self.carry_bias_weight = self.add_weight(
            name="carry_bias", shape=(size,), initializer=constant
        )

    def _kernel(self, name: str, size: int) -> keras.Variable:
        # bilm-tf: standard deviation 1 / sqrt(D), so that x keeps its scale.
        normal = keras.initializers.RandomNormal(stddev=size**-0.5)
        return self.add_weight(name=name, shape=(size, size), initializer=normal)

    def call(self, inputs: Tensor) -> Tensor:
        transformed = self._f(ops.matmul(inputs, self.transform_kernel) + self.transform_bias)
        gate = ops.sigmoid(ops.matmul(inputs, self.carry_kernel) + self.carry_bias_weight)
        return inputs + gate * (transformed - inputs)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape
