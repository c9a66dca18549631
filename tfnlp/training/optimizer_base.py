"""What the trainer asks of an optimizer: slots, and one update, pure or on every replica.

Keras's own optimizers sum gradients over replicas a second time and clip before they sum; these
apply gradients that the trainer has already summed and clipped. `KerasOptimizer` adapts those of
Keras.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from tfnlp.layers.base import Tensor
from tfnlp.optional_tensorflow import tf
from tfnlp.training.schedules import Rate

Gradient = Any  # a tensor, or with TensorFlow a `tf.IndexedSlices`
Scalars = Any  # a scalar tensor or a list of them
Named = dict[str, Any]  # scalar tensors, or lists of them, by name

# Keras's names of biases and of the scale and shift of layer norms.
_NOT_DECAYED = re.compile(r"(^|/)(bias|gamma|beta)$")
_WRAPPING = ("LossScaleOptimizer", "MultiOptimizer")
_CLIPPING = "give the Trainer clip_norm, which clips the gradient summed over replicas"
# Arguments of a Keras optimizer that the trainer replaces, and by what.
_REPLACED = {
    "clipnorm": _CLIPPING,
    "clipvalue": _CLIPPING,
    "global_clipnorm": _CLIPPING,
    "gradient_accumulation_steps": "give the Trainer accumulation",
    "loss_scale_factor": "give the Trainer loss_scaling, which divides before it clips",
    "use_ema": "average checkpoints with tfnlp.training.average_checkpoints",
}


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

    def scalars(self, rate: Tensor, step: Tensor) -> Named:
        """Return the arguments of `update` that variables of one rate and step share.

        In a graph every constant is an operation: one for each variable would be a fifth of the
        operations of a small model's training step, which takes that much longer to trace.
        """
        return {"rate": rate, "decay": rate * self.weight_decay if self.weight_decay else None}

    def update(
        self, weight: Tensor, gradient: Tensor, slots: Sequence[Tensor], scalars: Named
    ) -> tuple[Tensor, ...]:
        """Return the new values of one weight and its slots, in the order of `slot_names`.

        The scalars are from `scalars`; `decay` among them is None for a weight that does not decay.
        """
        raise NotImplementedError

    def assign(
        self, var: tf.Variable, gradient: Gradient, slots: Sequence[tf.Variable], scalars: Named
    ) -> None:
        """Assign what `update` returns; TensorFlow alone, which may have a kernel for it."""
        weight, *values = (variable.read_value() for variable in (var, *slots))
        new = self.update(weight, gradient, values, scalars)
        for variable, value in zip((var, *slots), new, strict=True):
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
        each = self._each(gradients, learning_rate)
        for weight, (_, names, gradient, rate, decays) in zip(weights, each, strict=True):
            scalars = self._shared_scalars(shared, rate, step, decays)
            new, *values = self.update(weight, gradient, [slots[n] for n in names], scalars)
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
            self.assign(var, gradient, slots, scalars)

        for variable, names, gradient, rate, decays in self._each(gradients, learning_rate):
            args = (gradient, rate, step, *(self.slots[name].value for name in names))
            if strategy is None:
                update(variable.value, *args, decays=decays)
            else:
                strategy.extended.update(
                    variable.value, update, args=args, kwargs={"decays": decays}, group=False
                )

    def _each(
        self, gradients: Sequence[Gradient], learning_rate: Scalars
    ) -> Iterator[tuple[keras.Variable, list[str], Gradient, Tensor, bool]]:
        """Yield each variable, the names of its slots, its gradient and rate, whether it decays."""
        rates = learning_rate
        if not isinstance(rates, list):
            rates = [learning_rate] * len(self.variables)
        for v, gradient, rate, decay in zip(
            self.variables, gradients, rates, self.decays, strict=True
        ):
            yield v, [f"{name}/{v.path}" for name in self.slot_names], gradient, rate, decay > 0

    def _shared_scalars(
        self, shared: dict[tuple[int, int], Any], rate: Tensor, step: Tensor, decays: bool
    ) -> dict[str, Any]:
        """Return `scalars(rate, step)`, computed once for all variables that share the two."""
        key = id(rate), id(step)
        if key not in shared:  # both are kept, so that no other object gets their ids
            shared[key] = rate, step, self.scalars(rate, step)
        scalars = shared[key][-1]
        return scalars if decays else {**scalars, "decay": None}


class KerasOptimizer:
    """A Keras optimizer with the interface of `tfnlp.training.Optimizer`.

    It gets gradients that are dense, summed over replicas and clipped, and applies them. Its own
    weight decay and its exclusions hold: unlike the optimizers here, those of Keras also decay
    biases and layer norms unless told otherwise.

    Args:
        optimizer: a new `keras.optimizers.Optimizer`, made in the strategy's scope.
        rate: function of the step to the learning rate; it replaces the optimizer's own. None:
            the optimizer's own float or schedule.

    Attributes:
        slots: dict of name to `keras.Variable`: all variables of the optimizer.

    Raises:
        ValueError: for an optimizer that scales the loss, accumulates or clips gradients, averages
            weights, or has been used.
    """

    takes_rows = False

    def __init__(self, optimizer: keras.optimizers.Optimizer, rate: Rate | None = None) -> None:
        name = type(optimizer).__name__
        if name in _WRAPPING:  # Keras 3.14 has no MultiOptimizer yet
            raise ValueError(f"optimizer {name} wraps other optimizers; pass one of them alone")
        for argument, instead in _REPLACED.items():
            if value := getattr(optimizer, argument, None):
                raise ValueError(f"optimizer {name} has {argument}={value}: {instead}")
        if optimizer.built:
            raise ValueError(f"optimizer {name} is in use for other weights; make a new one")
        self.optimizer, self.slots = optimizer, {}
        self._has_own_rate = rate is None
        if rate is not None:
            optimizer.learning_rate = _Schedule(rate)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Make the slots of `variables`; call it in the strategy's scope."""
        count, in_tensorflow = self.optimizer.iterations, keras.backend.backend() == "tensorflow"
        if in_tensorflow and not (
            tf.distribute.get_strategy().extended.variable_created_in_scope(count.value)
        ):
            raise ValueError(
                f"optimizer {type(self.optimizer).__name__} was made outside the strategy's "
                "scope; make it in `with strategy.scope():`"
            )
        self.variables = list(variables)
        self.optimizer.build(self.variables)
        # Keras numbers names within a process, so the place in the list identifies a variable.
        name = type(self.optimizer).__name__
        self.slots = {f"{name}/{i}": v for i, v in enumerate(self.optimizer.variables)}

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """Return the learning rate of the next update."""
        return keras.ops.cast(self.optimizer.learning_rate, "float32")

    def apply(self, gradients: Sequence[tf.Tensor], learning_rate: Any, step: Any) -> None:
        """Update the weights, in replica context; Keras reads its own rate and counts its steps."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas > 1:  # Keras sums what each replica passes
            gradients = [g / replicas for g in gradients]
        self.optimizer.apply(gradients, self.variables)

    def updated(
        self,
        weights: Sequence[Any],
        slots: dict[str, Any],
        gradients: Sequence[Any],
        learning_rate: Any,
        step: Any,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the weights and slots after one update; a pure function."""
        values = [slots[name] for name in self.slots]  # JAX sorts the names of a dict
        weights, values = self.optimizer.stateless_apply(values, gradients, weights)
        return list(weights), dict(zip(self.slots, values, strict=True))

    def settings(self) -> dict[str, Any]:
        """Return the arguments that the updates depend on, as JSON takes them."""
        config = dict(self.optimizer.get_config())
        config.pop("name", None)
        if not self._has_own_rate:
            config.pop("learning_rate", None)
        return config


class _Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A function of the step as a Keras schedule."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate

    def __call__(self, step: Any) -> tf.Tensor:
        return self._rate(keras.ops.convert_to_tensor(step))

    def get_config(self) -> dict[str, Any]:
        return {}
