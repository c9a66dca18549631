"""Dropout with a mask that is cheap to draw."""

import math
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer
from tfnlp.layers.kernels.dropout_mask import dropout_mask
from tfnlp.layers.types import Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class Dropout(Layer):
    """`y = x m / (1 - rate)`, `m` 0 with probability `rate`, else 1 (Srivastava et al. 2014).

    `rate` is rounded to a multiple of 1/65536 and `1 - rate` with it, so that `E[y] = x` exactly.

    To draw a Philox number for each element takes longer than the rest of a block's elementwise
    work, so the mask comes from a hash of few draws, see `kernels/dropout_mask.py`. The randomness
    comes from a `keras.random.SeedGenerator`, as in `keras.layers.Dropout`.

    Args:
        rate: probability of 0, at least 0 and below 1.
        seed: of the seed generator.

    Call: any shape and float dtype to the same; the identity unless `training`.

    Raises:
        ValueError: for a rate outside [0, 1).
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"rate={rate} must be at least 0 and below 1")
        self.rate = rate
        self.dropped = round(rate * 65536)  # of 65536 equally likely numbers of an element
        self.seed = seed
        self.supports_masking = True
        self.built = True
        if rate > 0:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        dropped = self.dropped
        if not training or dropped == 0:
            return inputs
        shape = inputs.shape
        count = ops.size(inputs) if None in shape else math.prod(shape)
        width = shape[-1] if len(shape) > 1 else None
        kept = dropout_mask(count, width, dropped, self.seed_generator)
        # A product with the mask is cheaper than a selection, in both directions.
        mask = ops.cast(ops.reshape(kept, ops.shape(inputs)), inputs.dtype)
        return inputs * (mask * (65536 / (65536 - dropped)))

    def compute_output_spec(self, inputs: Tensor, training: bool = False) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
