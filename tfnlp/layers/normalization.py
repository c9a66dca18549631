"""Layer normalization in float32 under any dtype policy."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer
from tfnlp.layers.kernels.add_bias import add_bias
from tfnlp.layers.kernels.layer_norm import scaled_norm
from tfnlp.layers.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class LayerNorm(Layer):
    """`y = gamma * (x - mean) / sqrt(variance + epsilon) + beta` over the last axis.

    Ba, Kiros & Hinton 2016, eq. 4. Mean and (biased) variance are computed in float32 and in two
    passes: `E[x^2] - E[x]^2` in one pass loses digits where the mean is large.

    Args:
        epsilon: added to the variance; 1e-12 in BERT, 1e-5 in GPT.

    Shapes: `[..., H]` in the compute dtype to `[..., H]` in the compute dtype.
    """

    def __init__(self, epsilon: float = 1e-12, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        size = (input_shape[-1],)
        self.gamma = self.float32_weight("gamma", size, "ones")
        self.beta = self.float32_weight("beta", size)

    def call(self, inputs: Tensor) -> Tensor:
        rows = len(inputs.shape) == 2
        flat = inputs if rows else ops.reshape(inputs, (-1, inputs.shape[-1]))  # [R, H]
        y = scaled_norm(flat, ops.copy(self.gamma), self.epsilon)
        y = ops.cast(add_bias(y, self.beta), self.compute_dtype)
        return y if rows else ops.reshape(y, ops.shape(inputs))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape
