"""Keras optimizers in the trainer's step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfnlp.optional_tensorflow import tf
from tfnlp.training.schedules import Rate

_WRAPPING = ("LossScaleOptimizer", "MultiOptimizer")
# Arguments of a Keras optimizer that the trainer replaces, and by what.
_REPLACED = {
    "clipnorm": "give the Trainer clip_norm, which clips the gradient summed over replicas",
    "clipvalue": "give the Trainer clip_norm, which clips the gradient summed over replicas",
    "global_clipnorm": "give the Trainer clip_norm, which clips the gradient summed over replicas",
    "gradient_accumulation_steps": "give the Trainer accumulation",
    "loss_scale_factor": "give the Trainer loss_scaling, which divides before it clips",
    "use_ema": "average checkpoints with tfnlp.training.average_checkpoints",
}


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
