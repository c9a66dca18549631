"""Dense layers inside other layers, and their low-rank updates (LoRA)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import KeepsFrozen, Layer, Shape, Tensor, check_positive
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.kernels.products import add_bias, product

# The matrices of a `TransformerBlock`, in the order of a call.
MATRICES = ("query", "key", "value", "attention_output", "intermediate", "output")


@dataclasses.dataclass(frozen=True)
class LowRank:
    """Which matrices of a Transformer get low-rank updates, and of which rank.

    Args:
        rank: r of `LowRankUpdate`.
        matrices: names from "query", "key", "value", "attention_output", "intermediate" and
            "output"; the first two alone of the six with "value" are those of Hu et al. 2022,
            section 4.2 (query and value).
        alpha: the update is multiplied by `alpha / rank`; None: 2 r.
        dropout: rate on the inputs of the updates.

    Raises:
        ValueError: for a rank below 1, an unknown matrix or none, alpha not above 0, or a dropout
            outside [0, 1).
    """

    rank: int
    matrices: tuple[str, ...] = ("query", "value")
    alpha: float | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrices", tuple(self.matrices))
        if self.alpha is None:
            object.__setattr__(self, "alpha", 2.0 * self.rank)
        check_positive(rank=self.rank)
        unknown = [name for name in self.matrices if name not in MATRICES]
        if unknown or not self.matrices:
            raise ValueError(
                f"matrices={self.matrices} must be one or more of {', '.join(MATRICES)}"
            )
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise ValueError(f"alpha={self.alpha} must be a number above 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} must be at least 0 and below 1")

    def config(self) -> dict[str, Any]:
        """Return the arguments, as JSON has them."""
        return {**dataclasses.asdict(self), "matrices": list(self.matrices)}


def low_rank_of(given: LowRank | Mapping[str, Any] | None) -> LowRank | None:
    """Return the settings that a layer was given as an object, as its config, or not at all."""
    return given if given is None or isinstance(given, LowRank) else LowRank(**given)


@keras.saving.register_keras_serializable(package="tfnlp")
class LowRankUpdate(Layer):
    """`u_p(x) = (alpha / r) B_p A_p drop(x)`, what is added to part p of a dense layer's outputs.

    Hu et al. 2022 (LoRA), section 4.1. The kernel of the dense layer stays as it is; A starts with
    random numbers of variance `1 / (3 H)`, B with zeros, so that nothing changes at first. The
    outputs of a dense layer may be those of several matrices side by side, as queries, keys and
    values are: each part that is changed has its own A and B.

    Args:
        rank: r.
        units: width U of a part.
        count: parts P of the dense layer's outputs.
        parts: the parts that are changed, from 0.
        alpha: see the formula.
        dropout: rate on x.

    Call: `[..., H]` to `[..., P U]`, zeros at the parts that are not changed.

    Weights: `down`, A of all changed parts side by side, `[H, n r]`; `up`, their B, `[n, r, U]`.

    Raises:
        ValueError: for a rank, units or count below 1, or a dropout outside [0, 1).
    """

    def __init__(
        self,
        rank: int,
        units: int,
        count: int = 1,
        parts: Sequence[int] = (0,),
        alpha: float = 1.0,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(rank=rank, units=units, count=count)
        self.rank, self.units, self.count, self.parts = rank, units, count, list(parts)
        self.alpha, self.dropout = alpha, dropout
        self.input_dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        width, parts = inputs_shape[-1], len(self.parts)
        uniform = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
        down, up = (width, parts * self.rank), (parts, self.rank, self.units)
        self.down = self.add_weight(name="down", shape=down, initializer=uniform)
        self.up = self.add_weight(name="up", shape=up, initializer="zeros")

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        x = self.input_dropout(ops.cast(inputs, self.compute_dtype), training=training)
        return ops.matmul(ops.matmul(x, ops.convert_to_tensor(self.down)), self._wide())

    def matrix(self) -> Tensor:
        """Return what is added to the kernel of the dense layer, float32 `[H, P U]`."""
        down = ops.convert_to_tensor(self.down)
        return ops.matmul(ops.cast(down, "float32"), ops.cast(self._wide(), "float32"))

    def _wide(self) -> Tensor:
        """Return B of all parts, `[n r, P U]`: each part's own rows and columns, zeros elsewhere.

        One product with it is cheaper than one for each part.
        """
        up = ops.convert_to_tensor(self.up) * (self.alpha / self.rank)  # [n, r, U]
        rows = []
        for row, part in enumerate(self.parts):
            sides = (part * self.units, (self.count - 1 - part) * self.units)
            rows.append(ops.pad(up[row], ((0, 0), sides)))
        return ops.concatenate(rows, axis=0)

    def compute_output_spec(self, inputs: Tensor, training: bool = False) -> keras.KerasTensor:
        shape = (*inputs.shape[:-1], self.count * self.units)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


@keras.saving.register_keras_serializable(package="tfnlp")
class Dense(KeepsFrozen, keras.layers.Dense):
    """Keras's layer, for models of which some weights alone may be trained."""


class BuiltDense(keras.layers.Dense):
    """Keras's layer, with products and gradients that XLA's compilers make fast.

    Attributes:
        update: the `LowRankUpdate` that is added to `W x + b`, or None.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.update: LowRankUpdate | None = None

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        rows = len(inputs.shape) == 2
        flat = inputs if rows else ops.reshape(inputs, (-1, inputs.shape[-1]))  # [N, H]
        y = add_bias(product(flat, ops.convert_to_tensor(self.kernel)), self.bias)
        if self.update is not None:
            y = y + self.update(flat)
        y = self.activation(y)
        return y if rows else ops.reshape(y, (*ops.shape(inputs)[:-1], self.units))

    def add_low_rank(self, low_rank: LowRank, names: Sequence[str]) -> None:
        """Add updates to those of the matrices `names`, side by side, that the settings name."""
        if self.update is not None:
            raise ValueError(f"{self.path} has low-rank updates already; merge them first")
        parts = [part for part, name in enumerate(names) if name in low_rank.matrices]
        if not parts:
            return
        update = LowRankUpdate(
            low_rank.rank,
            self.units // len(names),
            len(names),
            parts,
            low_rank.alpha,
            low_rank.dropout,
            dtype=self.dtype_policy,
            name="update",
        )
        # The path of its weights, whether the layer around it is being built or was long ago.
        with keras.name_scope("update", caller=update, override_parent=self.path):
            update.build((None, self.kernel.shape[0]))
        self._tracker.unlock()
        self.update = update
        self._tracker.lock()

    def merge_low_rank(self) -> None:
        """Add the updates to the kernel and remove them: the outputs stay the same."""
        if self.update is not None:
            self.kernel.assign_add(ops.cast(self.update.matrix(), self.kernel.dtype))
            self._tracker.untrack(self.update)
            self.update = None


class WithLowRank(Layer):
    """A layer of several dense layers, whose matrices may have low-rank updates."""

    low_rank: LowRank | None
    kernel_initializer: keras.Initializer

    def dense(self, width: int, units: int, name: str, divisor: float = 1.0) -> BuiltDense:
        """Return one of its dense layers, see `built_dense`."""
        fill, policy = self.kernel_initializer, self.dtype_policy
        return built_dense(width, units, fill, policy, name, divisor=divisor)

    def projections(self) -> list[tuple[BuiltDense, tuple[str, ...]]]:
        """Return the dense layers with the names of the matrices in each, see `LowRank`."""
        raise NotImplementedError

    def add_low_rank(self, low_rank: LowRank) -> None:
        """Add low-rank updates to the matrices of the layer, which is built."""
        for dense, names in self.projections():
            dense.add_low_rank(low_rank, names)
        self.low_rank = low_rank

    def merge_low_rank(self) -> None:
        """Add the updates to the kernels and remove them: the outputs stay the same."""
        for dense, _ in self.projections():
            dense.merge_low_rank()
        self.low_rank = None

    def get_config(self) -> dict[str, Any]:
        low_rank = None if self.low_rank is None else self.low_rank.config()
        return {**super().get_config(), "low_rank": low_rank}


def built_dense(
    width: int,
    units: int,
    kernel_initializer: keras.Initializer,
    dtype: Any,
    name: str,
    activation: str | None = None,
    divisor: float = 1.0,
) -> BuiltDense:
    """Return a dense layer from `width` to `units` whose weights exist already.

    The initializer is copied through its config, so that kernels which share an unseeded one still
    start from different random numbers; the divisor divides what it gives.
    """
    fill = keras.initializers.get(keras.initializers.serialize(kernel_initializer))

    def divided(shape: tuple[int, ...], dtype: Any = None) -> Any:
        return fill(shape, dtype=dtype) / divisor

    layer = BuiltDense(
        units,
        activation=activation,
        kernel_initializer=fill if divisor == 1.0 else divided,
        dtype=dtype,
        name=name,
    )
    layer.build((None, width))
    return layer
