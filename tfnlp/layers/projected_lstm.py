"""The LSTM of ELMo: a projected, clipped recurrent state that can be carried over."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import MaskEnds, Shape, Tensor, carried, check_positive
from tfnlp.layers.kernels.lstm_loop import Cell, lstm_loop, trainable_lstm_loop


@keras.saving.register_keras_serializable(package="tfnlp")
class ProjectedLSTM(MaskEnds):
    """An LSTM with a projection of its output, as TensorFlow 1's `LSTMCell`.

        i, j, f, o = split(x_t W_x + h_{t-1} W_h + b)
        c_t = clip(sigmoid(f + forget_bias) c_{t-1} + sigmoid(i) tanh(j))
        h_t = clip((sigmoid(o) tanh(c_t)) W_p)
        y_t = h_t            (+ x_t with `residual`)

    Sak, Senior & Beaufays 2014, eqs. 1-7, without peepholes; clips and order of the gates are
    bilm-tf's. The gates, c and h stay float32 under any dtype policy.

    By default the state starts at zero. To carry it over, pass the second output of one call as
    `initial_state` of the next.

    Args:
        units: U, the size of c.
        projection_size: P, the size of h; None: no projection, `h_t = clip(sigmoid(o) tanh(c_t))`
            and P = U.
        cell_clip, projection_clip: bounds of |c| and |h|; None: none.
        forget_bias: added to f.
        residual: add the input to the output; needs I = P.

    Call:
        inputs: `[B, T, I]`.
        mask: bool `[B, T]` or None, True for real tokens, anywhere in the row: the others leave
            the state unchanged, and their output is zero.
        initial_state: float32 `[B, U + P]`, c and h side by side, or None for zeros.
        resets: bool `[B, T]` or None; where True the state is set to zero before the token.
        training: whether a gradient is needed. The result is the same; the hand-written gradient
            is faster than automatic differentiation of the loop.

    Returns:
        outputs `[B, T, P]` in the compute dtype, state float32 `[B, U + P]`.

    Raises:
        ValueError: for sizes below 1, or clips that are not positive.
    """

    def __init__(
        self,
        units: int,
        projection_size: int | None,
        cell_clip: float | None = 3.0,
        projection_clip: float | None = 3.0,
        forget_bias: float = 1.0,
        residual: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(units=units, projection_size=projection_size)
        for name, clip in (("cell_clip", cell_clip), ("projection_clip", projection_clip)):
            if clip is not None and not clip > 0:
                raise ValueError(f"{name}={clip} must be positive, or None for no clipping")
        self.units = units
        self.projection_size = projection_size
        self.output_size = units if projection_size is None else projection_size
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.forget_bias = forget_bias
        self.residual = residual

    def build(self, input_shape: Shape) -> None:
        size = input_shape[-1]
        # One draw for both, as in TF1, where they are one matrix [I + P, 4U].
        limit = (6.0 / (size + self.output_size + 4 * self.units)) ** 0.5

        def kernel(name: str, rows: int) -> keras.Variable:
            uniform = keras.initializers.RandomUniform(-limit, limit)
            return self.add_weight(name=name, shape=(rows, 4 * self.units), initializer=uniform)

        self.kernel = kernel("kernel", size)
        self.recurrent_kernel = kernel("recurrent_kernel", self.output_size)
        self.bias = self.add_weight(name="bias", shape=(4 * self.units,), initializer="zeros")
        self.projection_kernel = None
        if self.projection_size is not None:
            self.projection_kernel = self.add_weight(
                name="projection_kernel", shape=(self.units, self.projection_size)
            )

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        initial_state: Tensor | None = None,
        resets: Tensor | None = None,
        training: bool = False,
    ) -> tuple[Tensor, Tensor]:
        mask = carried(mask, inputs)
        batch, time, units = ops.shape(inputs)[0], ops.shape(inputs)[1], self.units
        if initial_state is None:
            initial_state = ops.zeros((batch, units + self.output_size))
        x = ops.cast(ops.transpose(inputs, (1, 0, 2)), self.compute_dtype)  # [T, B, I]
        # The part that does not depend on the state is computed for all times at once.
        flat = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), self.kernel)
        gates = ops.reshape(ops.add(flat, self.bias), (time, batch, 4 * units))
        live = None if mask is None else ops.cast(ops.transpose(mask), "bool")[:, :, None]
        keep = None
        if resets is not None:
            keep = 1.0 - ops.cast(ops.transpose(resets), "float32")[:, :, None]
        loop = trainable_lstm_loop if training else lstm_loop
        state = ops.cast(initial_state, "float32")
        projection = self.projection_kernel
        if projection is not None:
            projection = ops.cast(projection, self.compute_dtype)
        recurrent = ops.cast(self.recurrent_kernel, self.compute_dtype)
        clips = self.cell_clip, self.projection_clip
        cell = Cell(recurrent, projection, *clips, self.forget_bias)
        c, h = state[:, :units], state[:, units:]
        outputs, c = loop(gates, c, h, cell, live, keep)  # [T, B, P], [B, U]
        state = ops.concatenate([c, outputs[-1]], -1)
        outputs = ops.cast(ops.transpose(outputs, (1, 0, 2)), self.compute_dtype)  # [B, T, P]
        if self.residual:
            outputs = outputs + inputs
        if mask is not None:
            outputs = ops.where(mask[:, :, None], outputs, ops.zeros((), outputs.dtype))
        return outputs, state

    def compute_output_spec(
        self, inputs: Tensor, *_: Any, **others: Any
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        batch, time, _ = inputs.shape
        return (
            keras.KerasTensor((batch, time, self.output_size), dtype=self.compute_dtype),
            keras.KerasTensor((batch, self.units + self.output_size), dtype="float32"),
        )
