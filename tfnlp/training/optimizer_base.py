"""What all optimizers share: weight decay, slots, and one update on every replica.

Keras's own optimizers sum gradients over replicas a second time and clip before they sum; these
apply gradients that the trainer has already summed and clipped. `KerasOptimizer` adapts those of
Keras.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

Gradient = tf.Tensor | tf.IndexedSlices
Scalars = Any  # a scalar tensor or a list of them

# Keras's names of biases and of the scale and shift of layer norms.
NOT_DECAYED = (r"(^|/)bias$", r"(^|/)gamma$", r"(^|/)beta$")


class Optimizer:
    """Base: weight-decay bookkeeping, slots, and applying one update on every replica.

    Args:
        weight_decay: lambda.
        exclude: regular expressions; a variable whose `path` one of them matches is not decayed.
            None takes the biases and layer-norm weights. A given pattern that matches no variable
            is an error.

    Attributes:
        takes_rows: whether a gradient may be a `tf.IndexedSlices` in which no row comes twice;
            without weight decay the rows that it does not name do not change.
        slots: dict of name to `tf.Variable`.

    Raises:
        ValueError: for a weight_decay that is negative.
    """

    slot_names: tuple[str, ...] = ()
    takes_rows = False

    def __init__(self, weight_decay: float = 0.0, exclude: Sequence[str] | None = None) -> None:
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay={weight_decay} must not be negative")
        self.weight_decay = weight_decay
        self.exclude = exclude
        self.slots = {}

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Make the slots of `variables`; call it in the strategy's scope.

        Raises:
            ValueError: for an exclude pattern that matches no variable.
        """
        patterns = NOT_DECAYED if self.exclude is None else self.exclude
        for pattern in patterns if self.exclude is not None else ():
            if not any(re.search(pattern, v.path) for v in variables):
                raise ValueError(
                    f"exclude pattern {pattern!r} matches none of the model's variables"
                )
        self.variables = list(variables)
        self.decays = [
            0.0 if any(re.search(p, v.path) for p in patterns) else self.weight_decay
            for v in variables
        ]
        self.slots = {
            f"{name}/{v.path}": tf.Variable(
                tf.fill(self.slot_shape(v.shape), tf.cast(self.slot_value(name), v.dtype)),
                trainable=False,
                name=f"{name}/{v.path}",
            )
            for v in variables
            for name in self.slot_names
        }

    def slot_value(self, name: str) -> float:
        """Return the value of the slot called `name` before the first update."""
        return 0.0

    def slot_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the slots of a variable."""
        return shape

    def scalars(self, rate: tf.Tensor, step: tf.Tensor) -> dict[str, Any]:
        """Return the arguments of `update` that variables of one rate and step share.

        In a graph every constant is an operation: one for each variable would be a fifth of the
        operations of a small model's training step, which takes that much longer to trace.
        """
        return {"rate": rate, "decay": rate * self.weight_decay if self.weight_decay else None}

    def update(
        self,
        var: tf.Variable,
        gradient: Gradient,
        decays: bool,
        *slots: tf.Variable,
        **scalars: Any,
    ) -> None:
        """Update one variable and its slots in place.

        Args:
            var: the variable.
            gradient: of `var`.
            decays: whether weight decay applies to it.
            slots: in the order of `slot_names`.
            scalars: from `scalars`.
        """
        raise NotImplementedError

    def apply(self, gradients: Sequence[Gradient], learning_rate: Scalars, step: Scalars) -> None:
        """Make one update, in replica context.

        Args:
            gradients: one for each variable, summed over replicas; dense, unless `takes_rows`.
            learning_rate: a scalar, or a list of one for each variable.
            step: number of updates before this one; a scalar, or a list of one for each variable.
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
        step: Scalars,
    ) -> None:
        count = len(self.variables)
        rates = learning_rate if isinstance(learning_rate, list) else [learning_rate] * count
        steps = step if isinstance(step, list) else [step] * count
        shared = {}

        def update(
            var: tf.Variable,
            gradient: Gradient,
            rate: tf.Tensor,
            step: tf.Tensor,
            *slots: tf.Variable,
            decays: bool,
        ) -> None:
            key = id(rate), id(step)  # each replica has its own
            if key not in shared:  # both are kept, so that no other object gets their ids
                shared[key] = rate, step, self.scalars(rate, step)
            self.update(var, gradient, decays, *slots, **shared[key][-1])

        for variable, decay, gradient, rate, step in zip(
            self.variables, self.decays, gradients, rates, steps, strict=True
        ):
            slots = [self.slots[f"{name}/{variable.path}"] for name in self.slot_names]
            args = (gradient, rate, step, *slots)
            if strategy is None:
                update(variable.value, *args, decays=decay > 0)
            else:
                strategy.extended.update(
                    variable.value, update, args=args, kwargs={"decays": decay > 0}, group=False
                )
