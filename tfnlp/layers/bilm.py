"""The layers of ELMo above its words: two stacks of LSTMs, and the mix of their outputs."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer, MaskEnds, Shape, Tensor, as_ids, carried, check_positive
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.projected_lstm import ProjectedLSTM
from tfnlp.layers.remat import rematerialized


@keras.saving.register_keras_serializable(package="tfnlp")
class BiLM(MaskEnds):
    """A forward and a backward stack of `ProjectedLSTM`s; the outputs of all layers are returned.

        f_l = LSTM(drop(f_{l-1})), b_l = LSTM over time backwards(drop(b_{l-1})), f_0 = b_0 = x
        h_l = [f_l | b_l]

    Peters et al. 2018, section 3.1. From the second layer on `residual` adds a layer's input to
    its output. Padding leaves the state unchanged, so the backward stack starts at the last real
    token of each row.

    Args:
        num_layers: L.
        units, projection_size, cell_clip, projection_clip: of each LSTM.
        residual: connect layers 2..L with their inputs, as in the published models.
        dropout: rate on the input of each LSTM while training.

    Call:
        inputs: `[B, T, P]`.
        mask: bool `[B, T]` or None, True for real tokens.
        initial_state: float32 `[B, 2L, U + P]` or None for zeros; row `2l` is layer l forward,
            `2l + 1` backward, c and h side by side.
        backward_inputs: `[B, T, P]` or None. While training on windows of running text the
            backward stack reads a stream of its own, given *in the order in which it reads*;
            the second half of each output is then in that order too.
        resets: bool `[B, T]` or None, for both stacks in the order in which they read; only with
            `backward_inputs`.

    Returns:
        list of L `[B, T, 2P]`, zero at padding, and the state, float32 `[B, 2L, U + P]`.

    Raises:
        ValueError: for sizes below 1, clips that are not positive, a dropout outside [0, 1), or
            `resets` without `backward_inputs`.
    """

    def __init__(
        self,
        num_layers: int = 2,
        units: int = 4096,
        projection_size: int = 512,
        cell_clip: float | None = 3.0,
        projection_clip: float | None = 3.0,
        residual: bool = True,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_layers=num_layers)
        self.num_layers = num_layers
        self.units = units
        self.projection_size = projection_size
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.residual = residual
        self.dropout = dropout

        def stack(direction: str) -> list[ProjectedLSTM]:
            return [
                ProjectedLSTM(
                    units,
                    projection_size,
                    cell_clip,
                    projection_clip,
                    residual=residual and index > 0,
                    dtype=self.dtype_policy,
                    name=f"{direction}_{index}",
                )
                for index in range(num_layers)
            ]

        self.forward_lstms, self.backward_lstms = stack("forward"), stack("backward")
        self.dropouts = [
            Dropout(dropout, dtype=self.dtype_policy, name=f"dropout_{i}")
            for i in range(2 * num_layers)
        ]

    @property
    def state_shape(self) -> tuple[int, int]:
        """`(2L, U + P)`, the shape of one row's state."""
        return 2 * self.num_layers, self.units + self.projection_size

    def build(self, input_shape: Shape) -> None:
        for lstms in (self.forward_lstms, self.backward_lstms):
            for index, lstm in enumerate(lstms):
                lstm.build((None, None, input_shape[-1] if index == 0 else self.projection_size))

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        initial_state: Tensor | None = None,
        backward_inputs: Tensor | None = None,
        resets: Tensor | None = None,
        training: bool = False,
    ) -> tuple[list[Tensor], Tensor]:
        if resets is not None and backward_inputs is None:
            raise ValueError("resets needs backward_inputs, whose order it has")
        mask, mirrored = carried(mask, inputs), backward_inputs is None
        f = inputs
        b = ops.flip(inputs, axis=1) if mirrored else backward_inputs
        b_mask = ops.flip(mask, axis=1) if mirrored and mask is not None else mask
        layers, states = [], []
        for index in range(self.num_layers):
            new = []
            for x, x_mask, lstm, row in (
                (f, mask, self.forward_lstms[index], 2 * index),
                (b, b_mask, self.backward_lstms[index], 2 * index + 1),
            ):
                before = None if initial_state is None else initial_state[:, row]
                arrays = (x, x_mask, before, resets)
                y, state = self._lstm(lstm, self.dropouts[row], arrays, training)
                new.append(y)
                states.append(state)
            f, b = new
            layer = ops.concatenate([f, ops.flip(b, axis=1) if mirrored else b], -1)
            layers.append(layer)  # [B, T, 2P]
        return layers, ops.stack(states, axis=1)

    def _lstm(
        self,
        lstm: ProjectedLSTM,
        dropout: Dropout,
        arrays: Sequence[Tensor | None],
        training: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs and the state of an LSTM for its inputs, mask, state and resets."""

        def outputs(x: Tensor, *rest: Tensor | None) -> tuple[Tensor, Tensor]:
            names = ("mask", "initial_state", "resets")
            named = dict(zip(names, rest, strict=True))
            return lstm(dropout(x, training=training), training=training, **named)

        return rematerialized(outputs, arrays, [lstm, dropout], training)

    def compute_output_spec(
        self, inputs: Tensor, *_: Any, **others: Any
    ) -> tuple[list[keras.KerasTensor], keras.KerasTensor]:
        shape = (*inputs.shape[:2], 2 * self.projection_size)
        return (
            [keras.KerasTensor(shape, dtype=self.compute_dtype) for _ in range(self.num_layers)],
            keras.KerasTensor((inputs.shape[0], *self.state_shape), dtype="float32"),
        )


if keras.backend.backend() != "torch":  # whose modules have a method `forward`
    # Files name what a layer holds by its attributes; these are the names that files know.
    BiLM.forward = property(lambda layer: layer.forward_lstms)
    BiLM.backward = property(lambda layer: layer.backward_lstms)


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


@keras.saving.register_keras_serializable(package="tfnlp")
class SentenceBoundaries(Layer):
    """A layer that adds a mark before and a mark after the real tokens of each row.

    `[w_1 .. w_n 0 .. 0]` of length T becomes `[begin w_1 .. w_n end 0 .. 0]` of length T + 2. A
    token is real if its first id is not 0, or if a real token follows it.

    Args:
        begin, end: the ids of one mark each, e.g. the characters of `<S>` and `</S>`.

    Call: int32 `[B, T, C]`, C = len(begin), to int32 `[B, T + 2, C]`.
    """

    def __init__(self, begin: Sequence[int], end: Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # of ids, which narrow floats would round
        self.begin = [int(i) for i in begin]
        self.end = [int(i) for i in end]
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        inputs = as_ids(inputs)
        places = ops.arange(ops.shape(inputs)[1])
        real = ops.cast(ops.not_equal(inputs[:, :, 0], 0), "int32")  # [B, T]
        length = ops.max(real * (places + 1), axis=1, initial=0)  # [B]
        padded = ops.pad(inputs, [[0, 0], [1, 1], [0, 0]])
        places = ops.arange(ops.shape(padded)[1])[None, :, None]
        begin, end = (ops.convert_to_tensor(mark, inputs.dtype) for mark in (self.begin, self.end))
        padded = ops.where(places == 0, begin, padded)
        return ops.where(places == length[:, None, None] + 1, end, padded)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        batch, time, size = inputs.shape
        dtype = "int32" if keras.backend.is_float_dtype(inputs.dtype) else inputs.dtype
        return keras.KerasTensor((batch, None if time is None else time + 2, size), dtype)
