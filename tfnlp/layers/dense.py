"""Dense layers inside other layers, created and built in one call."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Layer
from tfnlp.layers.kernels.add_bias import add_bias
from tfnlp.layers.kernels.product import product
from tfnlp.layers.low_rank import LowRank, LowRankUpdate
from tfnlp.layers.types import Tensor


class BuiltDense(keras.layers.Dense):
    """Keras's layer, with products and gradients that XLA's compilers make fast.

    Attributes:
        update: the `LowRankUpdate` that is added to `W x + b`, or None.
    """

    update: LowRankUpdate | None = None

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        rows = len(inputs.shape) == 2
        flat = inputs if rows else ops.reshape(inputs, (-1, inputs.shape[-1]))  # [N, H]
        y = add_bias(product(flat, ops.convert_to_tensor(self.kernel)), self.bias)
        if self.update is not None:
            y = y + self.update(flat)
        y = self.activation(y)
        return y if rows else ops.reshape(y, (*ops.shape(inputs)[:-1], self.units))

    def add_low_rank(self, low_rank: LowRank, names: Sequence[str]) -> None:
        """Add low-rank updates to those of the layer's matrices that the settings name.

        `names` are of the matrices whose outputs stand side by side. A layer that has updates
        already is refused.
        """
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

    Args:
        kernel_initializer: copied through its config, so that kernels which share an unseeded
            initializer still start from different random numbers.
        activation: name of a Keras activation, or None.
        divisor: divides the initial values of the kernel.
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
