"""Layer normalisation that stays in float32 whatever the dtype policy says."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tfnlp")
class LayerNorm(keras.layers.Layer):
    """`y = gamma * (x - mean) / sqrt(variance + epsilon) + beta` over the last axis.

    Ba, Kiros & Hinton 2016, eq. 4. Mean and (biased) variance are taken in float32 and in two
    passes: `E[x^2] - E[x]^2` in one pass loses digits where the mean is large.

    Args:
        epsilon: added to the variance; 1e-12 in BERT, 1e-5 in GPT.

    Shapes: `[..., H]` in the compute dtype to `[..., H]` in the compute dtype.
    """

    def __init__(self, epsilon=1e-12, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.supports_masking = True

    def build(self, input_shape):
        size = (input_shape[-1],)
        # autocast=False: under a bf16 policy gamma and beta are used as the float32 they are.
        self.gamma = self.add_weight(
            name="gamma", shape=size, initializer="ones", dtype="float32", autocast=False
        )
        self.beta = self.add_weight(
            name="beta", shape=size, initializer="zeros", dtype="float32", autocast=False
        )

    def call(self, inputs):
        y = _scaled(inputs, ops.copy(self.gamma), self.epsilon)
        shape = ops.shape(y)
        y = ops.reshape(y, (-1, shape[-1]))
        y = ops.reshape(ops.add(y, self.beta), shape)
        return ops.cast(y, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "epsilon": self.epsilon}


def _scaled(x, gamma, epsilon):
    """`gamma * (x - mean) / sqrt(variance + epsilon)` in float32, with its gradient by hand.

    With `n = (x - mean) / sqrt(variance + epsilon)` and `g = dy gamma`:
    `dx = (g - mean(g) - n mean(g n)) / sqrt(variance + epsilon)`, `dgamma = sum_rows(dy n)`.
    """

    @ops.custom_gradient
    def scaled(x, gamma):
        size = x.shape[-1]
        x32 = ops.cast(x, "float32")
        centred = x32 - ops.mean(x32, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        scale = ops.rsqrt(variance + epsilon)  # [..., 1]
        n = centred * scale

        def gradient(*args, upstream=None):
            dy = args[0] if upstream is None else upstream
            flat_n = ops.reshape(n, (-1, size))
            dy = ops.reshape(dy, (-1, size))
            dy_n = dy * flat_n  # [R, H]
            # Sums over rows and over columns as products with a vector: these run on all lanes.
            ones = ops.ones((1, ops.shape(dy)[0]), dtype="float32")
            dgamma = ops.reshape(ops.matmul(ones, dy_n), (-1,))
            weight = ops.reshape(gamma / size, (-1, 1))
            first = ops.matmul(dy, weight)  # [R, 1]
            second = ops.matmul(dy_n, weight)  # [R, 1]
            dx = (dy * gamma - first - flat_n * second) * ops.reshape(scale, (-1, 1))
            return ops.cast(ops.reshape(dx, ops.shape(x)), x.dtype), dgamma

        return n * gamma, gradient

    return scaled(x, gamma)
