"""Positions as sine waves, without weights."""

import functools
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import MaskEnds
from tfnlp.layers.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="tfnlp")
class SinusoidalPositions(MaskEnds):
    """`PE(p, 2i) = sin(p / 10000^(2i/H))`, `PE(p, 2i+1) = cos(p / 10000^(2i/H))`.

    Vaswani et al. 2017, section 3.5: sine on even channels, cosine on odd ones, alternating (some
    code puts all sines first). The waves are computed for the positions of each call: there is no
    table, and no limit of the length.

    Args:
        max_wavelength: the 10000 of the formula.

    Call: `[B, T, H]` (only its shape is read) and at most one of the int scalar `start` (for
    decoding with a cache) and `positions`, int `[B, T]` (for rows that begin with padding), to
    `[1, T, H]`, with `positions` to `[B, T, H]`, in the compute dtype. The angles are float32
    under any policy.
    """

    def __init__(self, max_wavelength: float = 10000.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_wavelength = max_wavelength

    def build(self, inputs_shape: Shape, positions_shape: Shape | None = None) -> None:
        self._hidden_size = inputs_shape[-1]

    @functools.cached_property
    def _frequencies(self) -> list[float]:
        """The frequencies of the H/2 waves."""
        hidden = self._hidden_size
        return [self.max_wavelength ** -(2 * i / hidden) for i in range((hidden + 1) // 2)]

    def call(
        self, inputs: Tensor, positions: Tensor | None = None, start: Tensor | None = None
    ) -> Tensor:
        if positions is None:
            positions = ops.arange(inputs.shape[1] or ops.shape(inputs)[1], dtype="int32")[None]
            if start is not None:
                positions = positions + ops.cast(start, "int32")
        frequencies = ops.convert_to_tensor(self._frequencies, dtype="float32")
        angles = ops.cast(positions, "float32")[:, :, None] * frequencies  # [1 or B, T, H/2]
        waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # [1 or B, T, H/2, 2]
        length = positions.shape[1] or ops.shape(positions)[1]
        rows = positions.shape[0] or -1
        waves = ops.reshape(waves, (rows, length, 2 * len(self._frequencies)))
        # An odd H ends with a sine.
        return ops.cast(waves[:, :, : inputs.shape[-1]], self.compute_dtype)

    def compute_output_spec(
        self, inputs: Tensor, positions: Tensor | None = None, start: Tensor | None = None
    ) -> keras.KerasTensor:
        batch = 1 if positions is None else inputs.shape[0]
        return keras.KerasTensor((batch, *inputs.shape[1:]), dtype=self.compute_dtype)
