"""The loss of GloVe: least squares between products of word vectors and logarithms of counts."""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer, check_positive
from tfnlp.layers.types import Shape, Tensor
from tfnlp.layers.word_embedding import look_up


@keras.saving.register_keras_serializable(package="tfnlp")
class GloVeLoss(Layer):
    """`f(X_ij) (w_i . w~_j + b_i + b~_j - log X_ij)^2`, `f(x) = min(1, (x / x_max)^alpha)`.

    Pennington, Socher & Manning 2014, equations 8 and 9. X_ij is how often word j is near word i,
    w and w~ are the vectors of words and of words as neighbours. A cell with X_ij = 0 costs
    nothing. Initially w~ and both biases are uniform in `+-1/(2D)`, as in GloVe's code.

    Args:
        vocab_size: V.
        x_max: the count from which all cells weigh the same.
        alpha: the exponent of the weights below.

    Call:
        inputs: `[B, D]`, the vectors w_i.
        word_ids: int32 `[B]`, i.
        context_ids: int32 `[B]`, j.
        counts: float32 `[B]`, X_ij.

    Returns:
        float32 `[B]`.

    Raises:
        ValueError: for a vocab_size below 1, or an x_max not above 0.
    """

    def __init__(
        self, vocab_size: int, x_max: float = 100.0, alpha: float = 0.75, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size)
        if not x_max > 0:
            raise ValueError(f"x_max={x_max} must be above 0")
        self.vocab_size = vocab_size
        self.x_max = x_max
        self.alpha = alpha
        self.autocast = False  # products and losses are float32 under any policy

    def build(self, inputs_shape: Shape) -> None:
        size = inputs_shape[-1]

        def uniform(name: str, *shape: int) -> keras.Variable:
            initializer = keras.initializers.RandomUniform(-0.5 / size, 0.5 / size)
            return self.float32_weight(name, shape, initializer)

        self.kernel = uniform("kernel", self.vocab_size, size)
        self.bias = uniform("bias", self.vocab_size)
        self.context_bias = uniform("context_bias", self.vocab_size)

    def call(self, inputs: Tensor, word_ids: Tensor, context_ids: Tensor, counts: Tensor) -> Tensor:
        products = ops.sum(ops.cast(inputs, "float32") * look_up(self.kernel, context_ids), -1)
        biases = look_up(self.bias, word_ids) + look_up(self.context_bias, context_ids)
        real = counts > 0
        found = ops.where(real, counts, 1.0)  # no slope is infinite
        errors = products + biases - ops.log(found)
        weights = ops.minimum(1.0, ops.power(found / self.x_max, self.alpha))
        return ops.where(real, weights, 0.0) * ops.square(errors)

    def compute_output_spec(self, inputs: Tensor, *_: Any, **others: Any) -> keras.KerasTensor:
        return keras.KerasTensor(inputs.shape[:-1], dtype="float32")
