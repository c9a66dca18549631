"""Positions as waves of many lengths, with nothing to learn."""

import functools

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tfnlp")
class SinusoidalPositions(keras.layers.Layer):
    """`PE(p, 2i) = sin(p / 10000^(2i/H))`, `PE(p, 2i+1) = cos(p / 10000^(2i/H))`.

    Vaswani et al. 2017, section 3.5: sine on even channels, cosine on odd ones, side by side (some
    code puts all sines first). The waves are computed for the positions asked for: there is no
    table, and no longest sequence.

    Args:
        max_wavelength: the 10000 of the formula.

    Call: `[B, T, H]` (only its shape is read) and at most one of the int scalar `start` (for
    decoding with a cache) and `positions`, int `[B, T]` (for rows that begin with padding), to
    `[1, T, H]`, with `positions` to `[B, T, H]`, in the compute dtype. The angles are float32
    under any policy.

    Raises:
        ValueError: if both `start` and `positions` are given, or max_wavelength is below 1.
    """

    def __init__(self, max_wavelength=10000.0, **kwargs):
        super().__init__(**kwargs)
        if max_wavelength < 1:
            raise ValueError(f"max_wavelength={max_wavelength} must be at least 1")
        self.max_wavelength = max_wavelength
        self.supports_masking = True

    def compute_mask(self, inputs, mask=None):
        return None

    def build(self, inputs_shape, positions_shape=None):
        self._hidden_size = inputs_shape[-1]

    @functools.cached_property
    def _frequencies(self):
        """The frequencies of the H/2 waves."""
        hidden = self._hidden_size
        return [self.max_wavelength ** -(2 * i / hidden) for i in range((hidden + 1) // 2)]

    def call(self, inputs, positions=None, start=None):
        if positions is None:
            positions = ops.arange(inputs.shape[1] or ops.shape(inputs)[1], dtype="int32")[None]
            if start is not None:
                positions = positions + ops.cast(start, "int32")
        elif start is not None:
            raise ValueError("give `start` or `positions`, not both")
        frequencies = ops.convert_to_tensor(self._frequencies, dtype="float32")
        angles = ops.cast(positions, "float32")[:, :, None] * frequencies  # [1 or B, T, H/2]
        waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # [1 or B, T, H/2, 2]
        length = positions.shape[1] or ops.shape(positions)[1]
        rows = positions.shape[0] or -1
        waves = ops.reshape(waves, (rows, length, 2 * len(self._frequencies)))
        # An odd H ends with a sine.
        return ops.cast(waves[:, :, : inputs.shape[-1]], self.compute_dtype)

    def compute_output_spec(self, inputs, positions=None, start=None):
        batch = 1 if positions is None else inputs.shape[0]
        return keras.KerasTensor((batch, *inputs.shape[1:]), dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "max_wavelength": self.max_wavelength}
