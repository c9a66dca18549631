"""One vector of a sentence from those of its tokens."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import MaskEnds
from tfnlp.layers.types import Shape, Tensor

POOLINGS = ("mean", "cls", "max", "last")
_SMALLEST_NORM = 1e-12


@keras.saving.register_keras_serializable(package="tfnlp")
class SentencePooling(MaskEnds):
    """The vector e of a sentence whose token t has the vector h_t.

    With R, the real positions of a row:

        mean  sum_{t in R} h_t / |R|        max   max_{t in R} h_t, of each feature
        cls   h at the first of R           last  h at the last of R

    and zeros for a row without real positions; with `normalize` then `e / max(|e|, 1e-12)`. The
    mean of a BERT's tokens and its `[CLS]` are compared by Reimers and Gurevych 2019
    (Sentence-BERT, section 3).

    Args:
        pooling: "mean", "cls", "max" or "last".
        normalize: divide by the Euclidean norm, so that a product of two vectors is their cosine.

    Call:
        inputs: `[B, T, D]`.
        mask: bool `[B, T]`, True for real tokens, or None.

    Returns:
        float32 `[B, D]`, whatever the compute dtype.

    Raises:
        ValueError: for another `pooling`, or inputs of another rank.
    """

    def __init__(self, pooling: str = "mean", normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"pooling={pooling!r} must be one of {', '.join(POOLINGS)}")
        self.pooling, self.normalize = pooling, normalize

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) != 3:
            raise ValueError(f"inputs must be [B, T, D], not of shape {input_shape}")

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        x = ops.cast(inputs, "float32")
        time = x.shape[1] or ops.shape(x)[1]
        if mask is None:
            real = ops.ones_like(x[:, :, :1], dtype="bool")
        else:
            real = ops.cast(mask, "bool")[:, :, None]  # [B, T, 1]
        if self.pooling == "mean":
            weights = ops.cast(real, "float32")
            pooled = ops.sum(x * weights, 1) / ops.maximum(ops.sum(weights, 1), 1.0)
        elif self.pooling == "max":
            pooled = ops.max(ops.where(real, x, -3e38), 1)
        else:
            places = ops.arange(time, dtype="int32")[None, :, None]  # [1, T, 1]
            if self.pooling == "cls":
                place = ops.min(ops.where(real, places, time - 1), 1, keepdims=True)
            else:
                place = ops.max(ops.where(real, places, 0), 1, keepdims=True)
            pooled = ops.sum(ops.where(places == place, x, 0.0), 1)  # [B, D]
        pooled = ops.where(ops.any(real, 1), pooled, 0.0)
        if self.normalize:
            squares = ops.sum(ops.square(pooled), -1, keepdims=True)
            pooled = pooled * ops.rsqrt(ops.maximum(squares, _SMALLEST_NORM**2))
        return pooled

    def compute_output_spec(self, inputs: Tensor, mask: Tensor | None = None) -> keras.KerasTensor:
        return keras.KerasTensor((inputs.shape[0], inputs.shape[2]), dtype="float32")
