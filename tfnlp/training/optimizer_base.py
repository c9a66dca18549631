"""What all optimizers share: weight decay, slots, and one update, pure or on every replica.

Keras's own optimizers sum gradients over replicas a second time and clip before they sum; these
apply gradients that the trainer has already summed and clipped. `KerasOptimizer` adapts those of
Keras.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras

from tfnlp.layers.types import Tensor
from tfnlp.optional_tensorflow import tf

Gradient = Any  # a tensor, or with TensorFlow a `tf.IndexedSlices`
Scalars = Any  # a scalar tensor or a list of them

# Keras's names of biases and of the scale and shift of layer norms.
_NOT_DECAYED = re.compile(r"(^|/)(bias|gamma|beta)$")


class Optimizer:
    """Base: weight-decay bookkeeping, slots, and applying one update on every replica.

    Args:
        weight_decay: lambda, of all but biases and the weights of layer norms.

    Attributes:
        takes_rows: whether a gradient may be a `tf.IndexedSlices` in which no row comes twice;
            without weight decay the rows that it does not name do not change.
        slots: dict of name to `keras.Variable`.
    """

    slot_names: tuple[str, ...] = ()
    slot_value = 0.0  # before the first update
    takes_rows = False

    def __init__(self, weight_decay: float = 0.0) -> None:
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay={weight_decay} must not be negative")
        self.weight_decay = weight_decay
        self.slots: dict[str, keras.Variable] = {}

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Make the slots of `variables`; call it in the strategy's scope."""
        self.variables = list(variables)
        self.decays = [0.0 if _NOT_DECAYED.search(v.path) else self.weight_decay for v in variables]
        self.slots = {
            f"{name}/{v.path}": keras.Variable(
                keras.initializers.Constant(self.slot_value),
                shape=self.slot_shape(v.shape),
                dtype=v.dtype,
                trainable=False,
                name=name,
            )
            for v in variables
            for name in self.slot_names
        }

    def slot_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the slots of a variable."""
        return shape

    def scalars(self, rate: Tensor, step: Tensor) -> dict[str, Any]:
        """Return the arguments of `update` that variables of one rate and step share.

        In a graph every constant is an operation: one for each variable would be a fifth of the
        operations of a small model's training step, which takes that much longer to trace.
        """
        return {"rate": rate, "decay": rate * self.weight_decay if self.weight_decay else None}

    def update(
        self, weight: Tensor, gradient: Tensor, *slots: Tensor, **scalars: Any
    ) -> tuple[Tensor, ...]:
        """Return the new values of one weight and its slots, in the order of `slot_names`.

        The scalars are from `scalars`; `decay` is None for a weight that does not decay.
        """
        raise NotImplementedError

    def assign(
        self,
        var: tf.Variable,
        gradient: Gradient,
        *slots: tf.Variable,
        **scalars: Any,
    ) -> None:
        """Assign what `update` returns; TensorFlow alone, which may have a kernel for it."""
        variables = (var, *slots)
        weight, *values = (variable.read_value() for variable in variables)
        new = self.update(weight, gradient, *values, **scalars)
        for variable, value in zip(variables, new, strict=True):
            variable.assign(value)

    def updated(
        self,
        weights: Sequence[Tensor],
        slots: dict[str, Tensor],
        gradients: Sequence[Tensor],
        learning_rate: Scalars,
        step: Tensor,
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Return the weights and slots after one update; a pure function.

        There is a weight for each variable, slots have the names in `self.slots`; the others are
        as for `apply`, gradients dense.
        """
        found, new_slots, shared = [], {}, {}
        for variable, weight, decay, gradient, rate in zip(
            self.variables,
            weights,
            self.decays,
            gradients,
            self._rates(learning_rate),
            strict=True,
        ):
            names = [f"{name}/{variable.path}" for name in self.slot_names]
            scalars = self._shared_scalars(shared, rate, step, decay > 0)
            new, *values = self.update(
                weight, gradient, *(slots[name] for name in names), **scalars
            )
            found.append(new)
            new_slots.update(zip(names, values, strict=True))
        return found, new_slots

    def apply(self, gradients: Sequence[Gradient], learning_rate: Scalars, step: Tensor) -> None:
        """Make one update with TensorFlow, in replica context.

        Args:
            gradients: one for each variable, summed over replicas; dense, unless `takes_rows`.
            learning_rate: a scalar, or a list of one for each variable.
            step: number of updates before this one, a scalar.
        """
        strategy = tf.distribute.get_strategy()
        if strategy.num_replicas_in_sync == 1:
            self._apply_all(None, gradients, learning_rate, step)
        else:
            tf.distribute.get_replica_context().merge_call(
                self._apply_all, args=(gradients, learning_rate, step)
            )

    def _apply_all(
        self,
        strategy: tf.distribute.Strategy | None,
        gradients: Sequence[Gradient],
        learning_rate: Scalars,
        step: Tensor,
    ) -> None:
        shared = {}  # each replica has its own scalars

        def update(
            var: tf.Variable,
            gradient: Gradient,
            rate: tf.Tensor,
            step: tf.Tensor,
            *slots: tf.Variable,
            decays: bool,
        ) -> None:
            scalars = self._shared_scalars(shared, rate, step, decays)
            self.assign(var, gradient, *slots, **scalars)

        for variable, decay, gradient, rate in zip(
            self.variables, self.decays, gradients, self._rates(learning_rate), strict=True
        ):
            slots = [self.slots[f"{name}/{variable.path}"].value for name in self.slot_names]
            args = (gradient, rate, step, *slots)
            if strategy is None:
                update(variable.value, *args, decays=decay > 0)
            else:
                strategy.extended.update(
                    variable.value, update, args=args, kwargs={"decays": decay > 0}, group=False
                )

    def _rates(self, learning_rate: Scalars) -> list[Tensor]:
        """Return a rate for each variable."""
        if isinstance(learning_rate, list):
            return learning_rate
        return [learning_rate] * len(self.variables)

    def _shared_scalars(
        self, shared: dict[tuple[int, int], Any], rate: Tensor, step: Tensor, decays: bool
    ) -> dict[str, Any]:
        """Return `scalars(rate, step)`, computed once for all variables that share the two."""
        key = id(rate), id(step)
        if key not in shared:  # both are kept, so that no other object gets their ids
            shared[key] = rate, step, self.scalars(rate, step)
        scalars = shared[key][-1]
        return scalars if decays else {**scalars, "decay": None}
