"""A task made of any Keras model and a loss function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from tfnlp.layers.base import Tensor
from tfnlp.objectives.objective import Objective

LossFunction = Callable[[Any, Any], Any]

_FORMS = (
    "(inputs, targets), (inputs, targets, sample_weight), or a dict of the inputs by name with "
    "the keys 'targets' and, optionally, 'sample_weight'"
)


class KerasObjective(Objective):
    """A Keras model with one output and a loss function of targets and outputs.

    Batches are those of `keras.Model.fit`: `(inputs, targets)` or `(inputs, targets,
    sample_weight)`. They can also be dicts of the model's inputs by name, with the keys `targets`
    and, optionally, `sample_weight`.

        loss = sum_i w_i l_i / sum_i w_i

    i runs over the examples of the global batch, and l_i is the mean over all other axes of the
    losses of example i. Without weights w_i is 1. With weights `[B, T, ...]` i runs over all
    their axes. Keras calls this reduction `mean_with_sample_weight`.

    Masks that layers pass on are not applied to the loss: give targets that do not count the
    weight 0.

    Args:
        model: a built `keras.Model`; its output is one tensor `[B, ...]`.
        loss: a name that `keras.losses.get` takes, a `keras.losses.Loss` (its reduction is not
            used), or a function `(targets, outputs) -> losses [B, ...]`.
        metrics: such functions by name, each averaged as the loss is.

    Raises:
        ValueError: for another model or loss.
    """

    def __init__(
        self,
        model: keras.Model,
        loss: str | keras.losses.Loss | LossFunction,
        metrics: Mapping[str, LossFunction] | None = None,
    ) -> None:
        if not model.variables:
            raise ValueError(
                f"model {model.name!r} has no weights yet: give it an Input, or call it once"
            )
        super().__init__(model)
        found = keras.losses.get(loss)  # what `call` returns is not reduced
        self._loss = found.call if isinstance(found, keras.losses.Loss) else found
        self._metrics = dict(metrics or {})
        self._structure = None

    def as_dict(self, batch: Any) -> dict[str, Any]:
        if isinstance(batch, Mapping):
            if "targets" in batch:
                return batch
            raise ValueError(f"a batch must be {_FORMS}; this dict has the keys {list(batch)}")
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise ValueError(f"a batch must be {_FORMS}, not {type(batch).__name__}")
        inputs, targets, *weight = batch
        if keras.tree.is_nested(targets):
            raise ValueError(
                f"targets must be one tensor, not {type(targets).__name__}; for several losses "
                "write a subclass of tfnlp.objectives.Objective"
            )
        self._structure = keras.tree.map_structure(lambda _: 0, inputs)
        flat = {f"inputs:{i}": x for i, x in enumerate(keras.tree.flatten(inputs))}
        return {**flat, "targets": targets, **({"sample_weight": weight[0]} if weight else {})}

    def inputs(self, batch: Mapping[str, Any]) -> Any:
        if "inputs:0" not in batch:
            return {k: v for k, v in batch.items() if k not in ("targets", "sample_weight")}
        count = len(keras.tree.flatten(self._structure))
        return keras.tree.pack_sequence_as(
            self._structure, [batch[f"inputs:{i}"] for i in range(count)]
        )

    def targets(self, batch: Mapping[str, Any]) -> dict[str, Tensor]:
        weights = batch.get("sample_weight")
        if weights is None:
            return {"target": ops.cast(ops.shape(batch["targets"])[0], "float32")}
        return {"target": ops.sum(ops.cast(weights, "float32"))}

    def losses(self, batch: Mapping[str, Any], outputs: Any) -> dict[str, Tensor]:
        return {"target": self._sum(self._loss, batch, outputs)}

    def metrics(self, batch: Mapping[str, Any], outputs: Any) -> dict[str, tuple[str, Tensor]]:
        return {
            name: ("target", self._sum(function, batch, outputs))
            for name, function in self._metrics.items()
        }

    def _sum(self, function: LossFunction, batch: Mapping[str, Any], outputs: Any) -> Tensor:
        """Return the weighted sum of what `function` gives for each target, a float32 scalar."""
        weights = batch.get("sample_weight")
        if keras.tree.is_nested(outputs):
            raise ValueError(
                f"model {self.model.name!r} returns a {type(outputs).__name__}; a loss function "
                "takes one tensor: write a subclass of tfnlp.objectives.Objective"
            )
        if weights is None and getattr(outputs, "_keras_mask", None) is not None:
            raise ValueError(
                f"the outputs of model {self.model.name!r} have a mask, which is not applied to "
                "the loss; give batches a sample_weight that is 0 for masked targets"
            )
        if keras.backend.is_float_dtype(keras.backend.standardize_dtype(outputs.dtype)):
            outputs = ops.cast(outputs, "float32")
        values = ops.cast(function(batch["targets"], outputs), "float32")
        rank = 1 if weights is None else len(weights.shape)
        if len(values.shape) < rank:
            raise ValueError(
                f"loss function {getattr(function, '__name__', function)!r} returns the shape "
                f"{values.shape}; it must return a loss for each "
                + ("example, [B, ...]" if rank == 1 else f"sample_weight {weights.shape}")
            )
        values = ops.mean(values, axis=list(range(rank, len(values.shape))))
        if weights is not None:
            values *= ops.cast(weights, "float32")
        return ops.sum(values)
