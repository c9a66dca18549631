"""Words from their characters: convolutions, max over time, highways, projection."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.activations import activation as activation_of
from tfnlp.layers.base import Layer, as_ids, check_positive
from tfnlp.layers.kernels.char_maxima import char_maxima
from tfnlp.layers.remat import rematerialized
from tfnlp.layers.types import Shape, Tensor

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@keras.saving.register_keras_serializable(package="tfnlp")
class CharCNN(Layer):
    """A vector for every word from its character ids.

    With character vectors e_1..e_C and, for every filter width w, a kernel `[w, E, n_w]`:
    `y_w = f(max_t(sum_k e_{t+k} K_w[k]) + b_w)` over the C - w + 1 positions where the filter is
    inside, `y = highway(...highway([y_1 | y_2 | ...]))`, output `y W + b`.
    Kim et al. 2016 (sections 2.2 and 2.3) as in Peters et al. 2018 and bilm-tf. `f` and the bias
    are applied after the maximum, where they cost less: both are monotone, so the result is equal.

    Args:
        num_characters: number of ids, with that of padding; 262 in the published models.
        embedding_size: E.
        filters: pairs (width, number); the paper's by default.
        activation: f, "relu" (the published weights) or "tanh".
        num_highway: highway layers.
        projection_size: P, or None for no projection.

    Call: int32 `[..., C]` to `[..., P]` in the compute dtype. Id 0 is padding and has the
    zero vector, which is not trained; C may be any length from the widest filter on.

    Raises:
        ValueError: for filters or sizes below 1, an unknown activation, or a static C below the
            widest filter.
    """

    def __init__(
        self,
        num_characters: int = 262,
        embedding_size: int = 16,
        filters: Sequence[tuple[int, int]] = FILTERS,
        activation: str = "relu",
        num_highway: int = 2,
        projection_size: int | None = 512,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # of ids, which narrow floats would round
        filters = tuple((int(width), int(number)) for width, number in filters)
        if not filters or min(min(pair) for pair in filters) < 1:
            raise ValueError(f"filters={filters} must be pairs (width, number), all at least 1")
        check_positive(
            num_characters=num_characters,
            embedding_size=embedding_size,
            projection_size=projection_size,
        )
        self.num_characters = num_characters
        self.embedding_size = embedding_size
        self.filters = filters
        self.activation = activation
        self.num_highway = num_highway
        self.projection_size = projection_size
        self._f = activation_of(activation)
        self.highways = [
            Highway(activation="relu", dtype=self.dtype_policy, name=f"highway_{i}")
            for i in range(num_highway)
        ]

    @property
    def num_filters(self) -> int:
        """F, the number of filters of all widths."""
        return sum(number for _, number in self.filters)

    def build(self, input_shape: Shape) -> None:
        uniform = keras.initializers.RandomUniform
        self.character_embedding = self.add_weight(
            name="character_embedding",
            shape=(self.num_characters - 1, self.embedding_size),
            initializer=uniform(-1.0, 1.0),
        )  # row i is id i + 1
        self.kernels, self.biases = [], []
        for index, (width, number) in enumerate(self.filters, start=1):
            # bilm-tf: uniform for ReLU; for tanh a normal scaled by the filter's inputs.
            initializer = (
                uniform(-0.05, 0.05)
                if self.activation == "relu"
                else keras.initializers.RandomNormal(stddev=(width * self.embedding_size) ** -0.5)
            )
            shape = (width, self.embedding_size, number)
            self.kernels.append(
                self.add_weight(name=f"kernel_{index}", shape=shape, initializer=initializer)
            )
            self.biases.append(
                self.add_weight(name=f"bias_{index}", shape=(number,), initializer="zeros")
            )
        for highway in self.highways:
            highway.build((None, self.num_filters))
        if self.projection_size is not None:
            self.projection_kernel = self.add_weight(
                name="projection_kernel",
                shape=(self.num_filters, self.projection_size),
                initializer=keras.initializers.RandomNormal(stddev=self.num_filters**-0.5),
            )
            self.projection_bias = self.add_weight(
                name="projection_bias", shape=(self.projection_size,), initializer="zeros"
            )

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        return rematerialized(self._words, [inputs], [self], training, full=True)

    def _words(self, inputs: Tensor) -> Tensor:
        """Return `[..., P]` of character ids `[..., C]`."""
        length, widest = inputs.shape[-1], max(width for width, _ in self.filters)
        if length is not None and length < widest:
            raise ValueError(f"words of {length} characters; the widest filter needs {widest}")
        leading = ops.shape(inputs)[:-1]
        ids = as_ids(ops.reshape(inputs, (-1, length or ops.shape(inputs)[-1])))  # [N, C]
        table = ops.cast(self.character_embedding, self.compute_dtype)
        table = ops.pad(table, [[1, 0], [0, 0]])
        # Time first: a filter's patches are then slices, and the maximum runs over rows.
        x = ops.take(table, ops.transpose(ids), axis=0)  # [C, N, E]
        maxima = char_maxima(x, [ops.cast(k, self.compute_dtype) for k in self.kernels])
        biases = [ops.cast(b, self.compute_dtype) for b in self.biases]
        y = self._f(maxima + ops.concatenate(biases))  # [N, F]
        for highway in self.highways:
            y = highway(y)
        if self.projection_size is not None:
            kernel, bias = self.projection_kernel, self.projection_bias
            kernel, bias = (ops.cast(x, self.compute_dtype) for x in (kernel, bias))
            y = ops.add(ops.matmul(y, kernel), bias)  # [N, P]
        return ops.reshape(y, (*leading, y.shape[-1]))

    def compute_output_spec(self, inputs: Tensor, training: bool = False) -> keras.KerasTensor:
        size = self.num_filters if self.projection_size is None else self.projection_size
        return keras.KerasTensor((*inputs.shape[:-1], size), dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="tfnlp")
class Highway(Layer):
    """`y = g f(x W_t + b_t) + (1 - g) x` with the gate `g = sigmoid(x W_c + b_c)`.

    Srivastava et al. 2015, eq. 3. Names and direction of the gate are those of bilm-tf, whose
    `W_carry` opens the *transformed* branch; with `b_c = -2` most of the input is carried at first.

    Args:
        activation: f, "relu" or "tanh".
        carry_bias: initial value of b_c.

    Shapes: `[..., D]` to `[..., D]` in the compute dtype.

    Raises:
        ValueError: for an unknown activation.
    """

    def __init__(self, activation: str = "relu", carry_bias: float = -2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activation
        self.carry_bias = carry_bias
        self._f = activation_of(activation)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        size = input_shape[-1]
        constant = keras.initializers.Constant(self.carry_bias)
        self.transform_kernel = self._kernel("transform_kernel", size)
        self.transform_bias = self.add_weight(
            name="transform_bias", shape=(size,), initializer="zeros"
        )
        self.carry_kernel = self._kernel("carry_kernel", size)
        self.carry_bias_weight = self.add_weight(
            name="carry_bias", shape=(size,), initializer=constant
        )

    def _kernel(self, name: str, size: int) -> keras.Variable:
        # bilm-tf: standard deviation 1 / sqrt(D), so that x keeps its scale.
        normal = keras.initializers.RandomNormal(stddev=size**-0.5)
        return self.add_weight(name=name, shape=(size, size), initializer=normal)

    def call(self, inputs: Tensor) -> Tensor:
        transformed = self._f(ops.matmul(inputs, self.transform_kernel) + self.transform_bias)
        gate = ops.sigmoid(ops.matmul(inputs, self.carry_kernel) + self.carry_bias_weight)
        return inputs + gate * (transformed - inputs)

    def compute_output_spec(self, inputs: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
