"""ELMo's weighted sum of the layers of a biLM."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer, carried, check_positive
from tfnlp.layers.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class ScalarMix(Layer):
    """`gamma sum_j softmax(s)_j N(h_j)`.

    Peters et al. 2018, eq. 1. N is the identity or, with `layer_norm`, `(h - mean) / sqrt(variance
    + 1e-12)` with mean and variance over the real tokens and all features of one sentence. (In
    bilm-tf they are over the whole batch; here other rows of a batch do not change a row. With one
    sentence in a batch both are equal.)

    Args:
        num_layers: number of layers to mix.
        layer_norm: normalize each layer first.
        l2: lambda of the penalty `lambda sum_j s_j^2`; a larger one pulls the mix towards the mean
            (section 3.4). 0: none.

    Call:
        inputs: list of L `[B, T, D]`.
        mask: bool `[B, T]`, or None: the mask that the inputs carry; used by `layer_norm` only.

    Returns:
        `[B, T, D]` in the compute dtype; the mixing itself is float32.

    Raises:
        ValueError: for num_layers below 1, or inputs of another number of layers.
    """

    def __init__(
        self,
        num_layers: int = 3,
        layer_norm: bool = False,
        l2: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        check_positive(num_layers=num_layers)
        self.num_layers = num_layers
        self.layer_norm = layer_norm
        self.l2 = l2

    def build(self, input_shape: Sequence[Shape]) -> None:
        if len(input_shape) != self.num_layers:
            raise ValueError(f"num_layers={self.num_layers}, but {len(input_shape)} inputs")
        penalty = keras.regularizers.L2(self.l2) if self.l2 else None
        self.scalars = self.float32_weight("scalars", (self.num_layers,), regularizer=penalty)
        self.gamma = self.float32_weight("gamma", (), "ones")

    def call(self, inputs: list[Tensor], mask: Tensor | None = None) -> Tensor:
        mask = carried(mask, inputs)
        layers = [ops.cast(x, "float32") for x in inputs]
        if self.layer_norm:
            layers = [_normalized(x, mask) for x in layers]
        weights = ops.softmax(ops.copy(self.scalars))
        mixed = sum(weights[j] * x for j, x in enumerate(layers))
        return ops.cast(self.gamma * mixed, self.compute_dtype)

    def compute_output_spec(
        self, inputs: list[Tensor], mask: Tensor | None = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor(inputs[0].shape, dtype=self.compute_dtype)


def _normalized(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return each sentence `[T, D]` with mean 0 and variance 1 over its real tokens."""
    real = ops.ones_like(x[:, :, :1])
    if mask is not None:
        real = ops.cast(mask, "float32")[:, :, None]  # [B, T, 1]
    count = ops.maximum(ops.sum(real, axis=(1, 2), keepdims=True) * x.shape[-1], 1.0)
    mean = ops.sum(x * real, axis=(1, 2), keepdims=True) / count
    variance = ops.sum(ops.square((x - mean) * real), axis=(1, 2), keepdims=True) / count
    return (x - mean) * ops.rsqrt(variance + 1e-12)
