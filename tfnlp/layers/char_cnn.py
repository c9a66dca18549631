"""Words from their characters: convolutions, max over time, highways, projection."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.activations import activation as activation_of
from tfnlp.layers.base import Initializer, Layer, Shape, Tensor, as_ids, check_positive
from tfnlp.layers.kernels.backend import by_target, with_gradient
from tfnlp.layers.remat import rematerialized

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
        self.num_characters, self.embedding_size = num_characters, embedding_size
        self.filters, self.activation = filters, activation
        self.num_highway, self.projection_size = num_highway, projection_size
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
        uniform, normal = keras.initializers.RandomUniform, keras.initializers.RandomNormal

        def weight(name: str, *shape: int, fill: Initializer = "zeros") -> keras.Variable:
            return self.add_weight(name=name, shape=shape, initializer=fill)

        size = self.embedding_size
        self.character_embedding = weight(
            "character_embedding", self.num_characters - 1, size, fill=uniform(-1.0, 1.0)
        )  # row i is id i + 1
        self.kernels, self.biases = [], []
        for index, (width, number) in enumerate(self.filters, start=1):
            # bilm-tf: uniform for ReLU; for tanh a normal scaled by the filter's inputs.
            is_relu = self.activation == "relu"
            fill = uniform(-0.05, 0.05) if is_relu else normal(stddev=(width * size) ** -0.5)
            self.kernels.append(weight(f"kernel_{index}", width, size, number, fill=fill))
            self.biases.append(weight(f"bias_{index}", number))
        for highway in self.highways:
            highway.build((None, self.num_filters))
        if self.projection_size is not None:
            sizes = self.num_filters, self.projection_size
            fill = normal(stddev=self.num_filters**-0.5)
            self.projection_kernel = weight("projection_kernel", *sizes, fill=fill)
            self.projection_bias = weight("projection_bias", self.projection_size)

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

        def weights(name: str, bias: float) -> tuple[keras.Variable, keras.Variable]:
            # bilm-tf: standard deviation 1 / sqrt(D), so that x keeps its scale.
            normal = keras.initializers.RandomNormal(stddev=size**-0.5)
            constant = keras.initializers.Constant(bias)
            return (
                self.add_weight(name=f"{name}_kernel", shape=(size, size), initializer=normal),
                self.add_weight(name=f"{name}_bias", shape=(size,), initializer=constant),
            )

        self.transform_kernel, self.transform_bias = weights("transform", 0.0)
        self.carry_kernel, self.carry_bias_weight = weights("carry", self.carry_bias)

    def call(self, inputs: Tensor) -> Tensor:
        transformed = self._f(ops.matmul(inputs, self.transform_kernel) + self.transform_bias)
        gate = ops.sigmoid(ops.matmul(inputs, self.carry_kernel) + self.carry_bias_weight)
        return inputs + gate * (transformed - inputs)


def char_maxima(x: Tensor, kernels: Sequence[Tensor]) -> Tensor:
    """Return `max_t sum_k x_{t+k} K_k` for every filter, over the places where it is inside.

    A CPU makes the answers of all filters of one width by one product, and takes their maximum
    after it. On a TPU these answers would go through HBM several times, in both directions. There
    the filters of all widths are columns of one matrix, of as many rows as the widest needs (fewer
    rows would leave the matrix units partly empty); the products of one place after the other keep
    only the largest answer so far and its place.

    Of characters `[C, N, E]` and kernels `[w, E, n_w]` of one dtype it is `[N, F]`.
    """
    widths = [kernel.shape[0] for kernel in kernels]
    if x.shape[0] is None or widths != sorted(widths):
        return plain_char_maxima(x, *kernels)
    return by_target(maxima_by_place, plain_char_maxima, x, *kernels)


def plain_char_maxima(x: Tensor, *kernels: Tensor) -> Tensor:
    """Return what `char_maxima` returns, width by width."""
    maxima = []
    for kernel in kernels:
        width, size, number = kernel.shape
        places = ops.shape(x)[0] - width + 1
        patches = ops.concatenate([x[i : places + i] for i in range(width)], -1)  # [C', N, wE]
        patches = ops.reshape(patches, (-1, width * size))
        answers = ops.matmul(patches, ops.reshape(kernel, (width * size, -1)))  # [C' N, n]
        maxima.append(ops.max(ops.reshape(answers, (places, -1, number)), axis=0))
    return ops.concatenate(maxima, -1)


def maxima_by_place(x: Tensor, *kernels: Tensor) -> Tensor:
    """Return what `char_maxima` returns, place by place, with a hand-written gradient.

    C is static, and no filter is narrower than the one before it.

    Of several equal answers the first has the gradient; `ops.max` divides it among them. They are
    mostly of equal characters, and then the sums over the characters are equal, too.
    """
    shapes = [kernel.shape for kernel in kernels]

    @with_gradient
    def maxima(x: Tensor, *kernels: Tensor) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
        joined = _joined(kernels)  # [WE, F]
        best, place = _best_places(x, joined, shapes)

        def gradient(d_best: Tensor) -> tuple[Tensor, ...]:
            dx, d_joined = _gradients(x, joined, place, d_best)
            d_kernels, first = [], 0
            for width, size, number in shapes:
                part = d_joined[: width * size, first : first + number]
                d_kernels.append(ops.reshape(part, (width, size, number)))
                first += number
            return dx, *d_kernels

        return best, gradient

    return maxima(x, *kernels)


def _joined(kernels: Sequence[Tensor]) -> Tensor:
    """Return the kernels side by side, `[WE, F]`, with zeros below those of narrow filters."""
    widest = kernels[-1].shape[0]
    columns = []
    for kernel in kernels:
        width, size, number = kernel.shape
        rows = ops.reshape(kernel, (width * size, number))
        columns.append(ops.pad(rows, [[0, (widest - width) * size], [0, 0]]))
    return ops.concatenate(columns, -1)


def _best_places(
    x: Tensor, joined: Tensor, shapes: Sequence[tuple[int, ...]]
) -> tuple[Tensor, Tensor]:
    """Return the largest answers and their places, as numbers of the dtype of x: `[N, F]` each."""
    count, size, widest = x.shape[0], x.shape[-1], shapes[-1][0]
    best = place = None
    for first in range(count):
        width = min(widest, count - first)  # characters that are left
        columns = sum(number for w, _, number in shapes if w <= width)
        if columns == 0:
            break
        patch = ops.concatenate([x[first + i] for i in range(width)], -1)  # [N, wE]
        answers = ops.matmul(patch, joined[: width * size, :columns])
        if best is None:
            best, place = answers, ops.zeros_like(answers, "float32")
            continue
        more = answers > best[:, :columns]
        new = ops.where(more, answers, best[:, :columns])
        new_place = ops.where(more, ops.full((), first, "float32"), place[:, :columns])
        best = ops.concatenate([new, best[:, columns:]], -1)
        place = ops.concatenate([new_place, place[:, columns:]], -1)
    return best, place


def _gradients(x: Tensor, joined: Tensor, place: Tensor, d_best: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of x and of the joined kernels."""
    count, number, size = x.shape[0], ops.shape(x)[1], x.shape[-1]
    widest = joined.shape[0] // size
    places = ops.arange(count, dtype="float32")[:, None, None]
    answers = ops.where(place[None] == places, d_best[None], ops.zeros((), d_best.dtype))
    answers = ops.reshape(answers, (-1, joined.shape[1]))  # [C N, F]
    after = ops.pad(x, [[0, widest - 1], [0, 0], [0, 0]])
    patches = ops.concatenate([after[i : count + i] for i in range(widest)], -1)
    patches = ops.reshape(patches, (-1, widest * size))  # [C N, WE]
    d_joined = ops.matmul(ops.transpose(patches), answers)
    d_patches = ops.matmul(answers, ops.transpose(joined))
    d_patches = ops.reshape(d_patches, (count, number, widest, size))
    d_patches = ops.pad(d_patches, [[widest - 1, 0], [0, 0], [0, 0], [0, 0]])
    starts = [widest - 1 - i for i in range(widest)]
    dx = sum(d_patches[s : s + count, :, i] for i, s in enumerate(starts))
    return dx, d_joined
