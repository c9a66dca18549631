"""One vector of a sentence from those of its tokens."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import MaskEnds, Shape, Tensor
from tfnlp.settings.use import POOLINGS

_SMALLEST_NORM = 1e-12


@keras.saving.register_keras_serializable(package="tfnlp")
class SentencePooling(MaskEnds):
    """The vector e of a sentence whose token t has the vector h_t.

    Token t is the n_t-th real one of its row. With R, the real tokens with `n_t > skip`:

        mean           sum_{t in R} h_t / |R|
        mean_sqrt_len  sum_{t in R} h_t / sqrt(|R|)
        weightedmean   sum_{t in R} n_t h_t / sum_{t in R} n_t
        max            max_{t in R} h_t, of each feature
        cls, last      h at the first of R, at the last

    and zeros where R is empty; of several poolings one vector after the other. With `normalize`
    then `e / max(|e|, 1e-12)`. The mean of a BERT's tokens and its `[CLS]` are compared by Reimers
    and Gurevych 2019 (Sentence-BERT, section 3); `weightedmean` is of Muennighoff 2022 (SGPT,
    section 4.1).

    Args:
        pooling: one of these names, or P of them.
        normalize: divide by the Euclidean norm, so that a product of two vectors is their cosine.
        skip: real tokens at the start of a row that are left out, those of a prompt.

    Call:
        inputs: `[B, T, D]`.
        mask: bool `[B, T]`, True for real tokens, or None.

    Returns:
        float32 `[B, P*D]`, whatever the compute dtype.

    Raises:
        ValueError: for another `pooling`, or inputs of another rank.
    """

    def __init__(
        self,
        pooling: str | Sequence[str] = "mean",
        normalize: bool = False,
        skip: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._names = (pooling,) if isinstance(pooling, str) else tuple(pooling)
        if not self._names or not set(self._names) <= set(POOLINGS):
            raise ValueError(f"pooling={pooling!r} must be one of {', '.join(POOLINGS)}")
        self.pooling = pooling if isinstance(pooling, str) else self._names
        self.normalize, self.skip = normalize, skip

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) != 3:
            raise ValueError(f"inputs must be [B, T, D], not of shape {input_shape}")

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        x = ops.cast(inputs, "float32")
        if mask is None:
            real = ops.ones_like(x[:, :, :1], dtype="bool")
        else:
            real = ops.cast(mask, "bool")[:, :, None]  # [B, T, 1]
        number = ops.cumsum(ops.cast(real, "int32"), 1)  # [B, T, 1], n_t at real tokens
        kept = ops.logical_and(real, number > self.skip)
        pooled = ops.concatenate([self._pooled(x, kept, number, n) for n in self._names], -1)
        pooled = ops.where(ops.any(kept, 1), pooled, 0.0)
        if self.normalize:
            squares = ops.sum(ops.square(pooled), -1, keepdims=True)
            pooled = pooled * ops.rsqrt(ops.maximum(squares, _SMALLEST_NORM**2))
        return pooled

    def _pooled(self, x: Tensor, kept: Tensor, number: Tensor, pooling: str) -> Tensor:
        """Return `[B, D]` of `[B, T, D]`, by one pooling."""
        if pooling == "max":
            return ops.max(ops.where(kept, x, -3e38), 1)
        if pooling in ("cls", "last"):
            place = self.skip + 1 if pooling == "cls" else ops.max(number, 1, keepdims=True)
            kept = ops.logical_and(kept, number == place)
            return ops.sum(ops.where(kept, x, 0.0), 1)
        weights = ops.cast(kept, "float32")
        if pooling == "weightedmean":
            weights = weights * ops.cast(number, "float32")
        whole = ops.maximum(ops.sum(weights, 1), 1.0)  # [B, 1]
        return ops.sum(x * weights, 1) / (ops.sqrt(whole) if pooling == "mean_sqrt_len" else whole)

    def compute_output_spec(self, inputs: Tensor, mask: Tensor | None = None) -> keras.KerasTensor:
        shape = (inputs.shape[0], len(self._names) * inputs.shape[2])
        return keras.KerasTensor(shape, dtype="float32")
