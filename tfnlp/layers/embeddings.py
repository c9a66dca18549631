"""Vectors of tokens (in reverse a tied softmax), of positions (also distances), of segments."""

import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from tfnlp.layers.base import Initializer, Layer, MaskEnds, Shape, Tensor, as_ids, check_positive
from tfnlp.layers.kernels.products import tied_projection


@keras.saving.register_keras_serializable(package="tfnlp")
class TokenEmbedding(MaskEnds):
    """Row lookup `e(i) = E[i]`, and in reverse the tied projection `logits = h E^T`.

    Input and output tables are tied as in Press & Wolf 2017, section 3, BERT and GPT.

    Args:
        vocab_size: rows of the table.
        hidden_size: columns of the table.
        initializer: Keras initializer of the table.

    Call: `ids` int `[B, T]` to `[B, T, H]` in the compute dtype; with `reverse=True`
    `hidden` `[..., H]` to float32 logits `[..., V]` (the product itself is in the compute dtype).

    Raises:
        ValueError: with `reverse` for inputs whose width is not H.
    """

    def __init__(
        self, vocab_size: int, hidden_size: int, initializer: Initializer = "uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # of ids, which narrow floats would round
        check_positive(vocab_size=vocab_size, hidden_size=hidden_size)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape: Shape | None = None) -> None:
        self.embeddings = self.add_table(self.vocab_size, self.hidden_size, self.initializer)

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        if not reverse:
            return ops.cast(ops.take(self.embeddings, as_ids(inputs), axis=0), self.compute_dtype)
        if inputs.shape[-1] != self.hidden_size:
            raise ValueError(f"inputs of width {inputs.shape[-1]}; expected {self.hidden_size}")
        table = ops.cast(self.embeddings, self.compute_dtype)
        hidden = ops.cast(inputs, self.compute_dtype)
        flat = ops.reshape(hidden, (-1, self.hidden_size))  # [N, H]: one plain 2-D product
        logits = ops.cast(tied_projection(flat, table), "float32")  # [N, V]
        lead = [-1, *hidden.shape[1:-1]]
        if None in lead[1:]:
            lead = list(ops.shape(hidden)[:-1])
        return ops.reshape(logits, (*lead, self.vocab_size))  # [..., V]

    def compute_output_spec(self, inputs: Tensor, reverse: bool = False) -> keras.KerasTensor:
        if reverse:
            return keras.KerasTensor((*inputs.shape[:-1], self.vocab_size), dtype="float32")
        return keras.KerasTensor((*inputs.shape, self.hidden_size), dtype=self.compute_dtype)


class _Positions(MaskEnds):
    """The base of layers of positions."""

    def compute_output_spec(
        self, inputs: Tensor, positions: Tensor | None = None, start: Tensor | None = None
    ) -> keras.KerasTensor:
        batch = 1 if positions is None else inputs.shape[0]
        return keras.KerasTensor((batch, *inputs.shape[1:]), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="tfnlp")
class PositionEmbedding(_Positions):
    """Learned positions: `y_t = P[start + t]`, or `y_bt = P[positions_bt]` (Gehring et al. 2017).

    Args:
        max_positions: the length of the longest sequence.
        initializer: Keras initializer of the table.
        offset: rows before that of the first position: the table has `offset + max_positions`
            rows, and `start` counts from `offset`, `positions` from the first row. RoBERTa's
            positions begin after the id of padding, at 2.

    Call: `[B, T, H]` (only its shape is read) and at most one of the int scalar `start` (for
    decoding with a cache) and `positions`, int `[B, T]` (for rows that begin with padding), to
    `[1, T, H]`, with `positions` to `[B, T, H]`, in the compute dtype.

    Raises:
        ValueError: for a static `T` above max_positions.
    """

    def __init__(
        self,
        max_positions: int,
        initializer: Initializer = "uniform",
        offset: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # of positions, as of ids
        check_positive(max_positions=max_positions)
        self.max_positions = max_positions
        self.offset = offset
        self.initializer = keras.initializers.get(initializer)

    def build(self, inputs_shape: Shape, positions_shape: Shape | None = None) -> None:
        rows = self.offset + self.max_positions
        self.embeddings = self.add_table(rows, inputs_shape[-1], self.initializer)

    def call(
        self, inputs: Tensor, positions: Tensor | None = None, start: Tensor | None = None
    ) -> Tensor:
        if inputs.shape[1] is not None and inputs.shape[1] > self.max_positions:
            raise ValueError(
                f"sequence of {inputs.shape[1]} tokens, but the model has "
                f"max_positions={self.max_positions}; shorten the sequences or build the model "
                "with more positions"
            )
        if positions is not None:
            rows = ops.take(self.embeddings, as_ids(positions), axis=0)
            return ops.cast(rows, self.compute_dtype)
        length = inputs.shape[1] or ops.shape(inputs)[1]
        if start is None:
            rows = self.embeddings[self.offset : self.offset + length]  # [T, H]
        else:
            table = ops.convert_to_tensor(self.embeddings)  # JAX slices no variable
            rows = ops.slice(table, (self.offset + start, 0), (length, table.shape[-1]))
        return ops.cast(rows[None], self.compute_dtype)  # [1, T, H]


@keras.saving.register_keras_serializable(package="tfnlp")
class SinusoidalPositions(_Positions):
    """`PE(p, 2i) = sin(p / 10000^(2i/H))`, `PE(p, 2i+1) = cos(p / 10000^(2i/H))`.

    Vaswani et al. 2017, section 3.5: sine on even channels, cosine on odd ones, alternating (some
    code puts all sines first). The waves are computed for the positions of each call: there is no
    table, and no limit of the length.

    Args:
        max_wavelength: the 10000 of the formula.

    Call: as `PositionEmbedding`. The angles are float32 under any policy.
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


def _buckets() -> np.ndarray:
    """Return the bucket of each distance s - t from -128 to 128, int32 `[257]`."""
    near = np.arange(129, dtype="float32")
    far = np.log(np.maximum(near, 1) / 8) / np.float32(np.log(16)) * 8
    half = np.where(near < 8, near, np.minimum(8 + far, 15)).astype("int32")
    return np.concatenate([half[:0:-1], [0], 16 + half[1:]]).astype("int32")


@keras.saving.register_keras_serializable(package="tfnlp")
class RelativePositionBias(MaskEnds):
    """`b_nts = R[bucket(s - t), n]`: what head n adds to the score of query t and key s.

    Raffel et al. 2020, section 2.1, as in MPNet (Song et al. 2020): 16 buckets for keys up to the
    query, 16 for those after it. Of each the first 8 are of one distance, the others of
    logarithmically more, the last one of all beyond 90.

    Args:
        num_heads: heads N.
        num_buckets: rows of R, of which the first 32 are read.
        initializer: Keras initializer of R.

    Call: `[B, T, H]` (only its shape is read) to float32 `[1, N, T, T]` under any policy.

    Raises:
        ValueError: for fewer than 32 rows.
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        initializer: Initializer = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_heads=num_heads)
        if num_buckets < 32:
            raise ValueError(f"num_buckets={num_buckets} must be at least 32, which are read")
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_table(self.num_buckets, self.num_heads, self.initializer)

    def call(self, inputs: Tensor) -> Tensor:
        by_distance = ops.take(self.embeddings, _buckets(), axis=0)  # [257, N]
        places = ops.arange(inputs.shape[1] or ops.shape(inputs)[1], dtype="int32")
        distances = ops.clip(places[None] - places[:, None], -128, 128) + 128  # [T, T]
        rows = ops.take(by_distance, distances, axis=0)  # [T, T, N]
        return ops.cast(ops.transpose(rows, (2, 0, 1))[None], "float32")

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        length = inputs.shape[1]
        return keras.KerasTensor((1, self.num_heads, length, length), dtype="float32")


@keras.saving.register_keras_serializable(package="tfnlp")
class SegmentEmbedding(Layer):
    """`y = S[segment]`, for sentence A (0) and sentence B (1) (BERT, section 3.2).

    The lookup in so small a table is computed as a sum over its rows, `sum_s [segment = s] S[s]`:
    its gradient is then a dense reduction, not a scatter into two rows.

    Args:
        num_segments: rows of the table.
        hidden_size: columns of the table.
        initializer: Keras initializer of the table.

    Call: int `[B, T]` to `[B, T, H]` in the compute dtype.
    """

    def __init__(
        self,
        num_segments: int,
        hidden_size: int,
        initializer: Initializer = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_segments=num_segments, hidden_size=hidden_size)
        self.num_segments = num_segments
        self.hidden_size = hidden_size
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.num_segments, self.hidden_size),
            initializer=self.initializer,
        )

    def call(self, inputs: Tensor) -> Tensor:
        ids = as_ids(inputs)
        one_hot = ops.one_hot(ids, self.num_segments, dtype=self.compute_dtype)  # [B, T, S]
        flat = ops.reshape(one_hot, (-1, self.num_segments))  # [B*T, S]
        rows = ops.matmul(flat, self.embeddings)  # [B*T, H]
        length = inputs.shape[1] or ops.shape(inputs)[1]
        return ops.reshape(rows, (-1, length, self.hidden_size))

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor((*inputs.shape, self.hidden_size), dtype=self.compute_dtype)
