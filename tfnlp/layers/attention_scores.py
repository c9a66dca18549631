"""Attention of a decoder to a source, by the function that scores a query against a key.

    a_ts = softmax_s(score(q_t, k_s)),  c_t = sum_s a_ts k_s

Call of all four:
    inputs: queries `[B, T, Q]`.
    keys: `[B, S, K]`, which are the values, too.
    mask: bool `[B, S]`, True for real keys, the others get the weight 0; None: the mask that the
        keys carry.
    projected_keys: `project_keys(keys)`, if it is known already, or None.

Returns: context `[B, T, K]` in the compute dtype, weights float32 `[B, T, S]`. Scores and softmax
are float32 under any policy.
"""

from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import MaskEnds, Shape, Tensor, carried, check_positive
from tfnlp.layers.kernels.attention import MASKED

TINY = 1e-12  # added to a squared norm, so that a vector of zeros divided by its norm is zero


def energies(queries: Tensor, keys: Tensor, vector: Tensor | None = None) -> Tensor:
    """Return `q . k`, or with a vector v, `[A]`, `v . tanh(q + k)`, float32 `[B, T, S]`.

    Queries q are `[B, T, A]`, keys k `[B, S, A]`.
    """
    if vector is None:
        return ops.cast(ops.matmul(queries, ops.swapaxes(keys, 1, 2)), "float32")
    hidden = ops.tanh(queries[:, :, None] + keys[:, None])  # [B, T, S, A]
    # A product of a matrix and a vector is faster than a sum over products.
    flat = ops.matmul(ops.reshape(hidden, (-1, hidden.shape[-1])), vector[:, None])
    time = queries.shape[1] or ops.shape(queries)[1]
    source = keys.shape[1] or ops.shape(keys)[1]
    return ops.cast(ops.reshape(flat, (-1, time, source)), "float32")


def project_queries(
    queries: Tensor, kernel: Tensor | None = None, unit_queries: bool = False
) -> Tensor:
    """Return `q W`, `q / |q|`, or q itself."""
    if unit_queries:
        return unit(queries)
    return queries if kernel is None else ops.matmul(queries, ops.cast(kernel, queries.dtype))


def unit(x: Tensor) -> Tensor:
    """Return `x / |x|` along the last axis, computed in float32."""
    wide = ops.cast(x, "float32")
    return ops.cast(wide * ops.rsqrt(ops.sum(wide * wide, -1, keepdims=True) + TINY), x.dtype)


def masked_bias(mask: Tensor | None) -> Tensor:
    """Return the number that is added to the energies, float32 `[B, 1, S]`; 0 for None."""
    if mask is None:
        return 0.0
    return ops.cast(ops.logical_not(ops.cast(mask, "bool")), "float32")[:, None] * MASKED


class _Attention(MaskEnds):
    """The base class of the four.

    A score is `energies(project_queries(q), project_keys(k), vector)`, so that the part of the
    keys is computed once for any number of queries.
    """

    query_kernel = vector = None
    unit_queries = False

    def build(self, inputs_shape: Shape, keys_shape: Shape) -> None:
        """Make the weights, of which a score may have none."""

    def project_keys(self, keys: Tensor) -> Tensor:
        return keys

    def call(
        self,
        inputs: Tensor,
        keys: Tensor,
        mask: Tensor | None = None,
        projected_keys: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        mask = carried(mask, keys)
        queries, keys = (ops.cast(x, self.compute_dtype) for x in (inputs, keys))
        if projected_keys is None:
            projected_keys = self.project_keys(keys)
        vector = None if self.vector is None else ops.cast(self.vector, self.compute_dtype)
        queries = project_queries(queries, self.query_kernel, self.unit_queries)
        scores = energies(queries, projected_keys, vector)
        weights = ops.softmax(scores + masked_bias(mask), axis=-1)  # [B, T, S]
        return ops.matmul(ops.cast(weights, self.compute_dtype), keys), weights

    def compute_output_spec(
        self, inputs: Tensor, keys: Tensor, *_: Any, **others: Any
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        batch, time, _ = inputs.shape
        return (
            keras.KerasTensor((batch, time, keys.shape[-1]), dtype=self.compute_dtype),
            keras.KerasTensor((batch, time, keys.shape[1]), dtype="float32"),
        )


@keras.saving.register_keras_serializable(package="tfnlp")
class AdditiveAttention(_Attention):
    """`score(q, k) = v . tanh(W q + U k)`.

    Bahdanau, Cho & Bengio 2015, appendix A.1.2; "concat" of Luong et al. 2015, eq. 8.

    Args:
        units: A, the length of v; None: Q.
    """

    def __init__(self, units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(units=units)
        self.units = units

    def build(self, inputs_shape: Shape, keys_shape: Shape) -> None:
        units = self.units or inputs_shape[-1]
        self.query_kernel = self.add_weight(name="query_kernel", shape=(inputs_shape[-1], units))
        self.key_kernel = self.add_weight(name="key_kernel", shape=(keys_shape[-1], units))
        self.vector = self.add_weight(
            name="vector",
            shape=(units,),
            initializer=keras.initializers.RandomNormal(stddev=units**-0.5),
        )

    def project_keys(self, keys: Tensor) -> Tensor:
        return ops.matmul(keys, ops.cast(self.key_kernel, keys.dtype))  # [B, S, A]


@keras.saving.register_keras_serializable(package="tfnlp")
class DotAttention(_Attention):
    """`score(q, k) = q . k` (Luong, Pham & Manning 2015, eq. 8), without weights; Q = K."""


@keras.saving.register_keras_serializable(package="tfnlp")
class GeneralAttention(_Attention):
    """`score(q, k) = q^T W k` (Luong, Pham & Manning 2015, eq. 8)."""

    def build(self, inputs_shape: Shape, keys_shape: Shape) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(inputs_shape[-1], keys_shape[-1]))

    def project_keys(self, keys: Tensor) -> Tensor:
        return ops.matmul(keys, ops.transpose(ops.cast(self.kernel, keys.dtype)))  # [B, S, Q]


@keras.saving.register_keras_serializable(package="tfnlp")
class CosineAttention(_Attention):
    """`score(q, k) = g cos(q, k) = g q . k / (|q| |k|)`, Q = K.

    Content-based addressing of Graves, Wayne & Danihelka 2014, eqs. 5-6; g is its key strength.

    Args:
        scale: initial value of the weight g. A cosine is at most 1: without a larger scale no
            weight could be much larger than another.

    Raises:
        ValueError: for a scale that is not positive.
    """

    unit_queries = True

    def __init__(self, scale: float = 8.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not scale > 0:
            raise ValueError(f"scale={scale} must be positive")
        self.scale = scale

    def build(self, inputs_shape: Shape, keys_shape: Shape) -> None:
        constant = keras.initializers.Constant(self.scale)
        self.factor = self.add_weight(name="scale", shape=(), initializer=constant, autocast=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        return unit(keys) * ops.cast(self.factor, keys.dtype)


# The names that the models use.
ATTENTIONS = {
    "additive": AdditiveAttention,
    "dot": DotAttention,
    "general": GeneralAttention,
    "cosine": CosineAttention,
}
