"""Outputs of a model without dropout: of batches, and of all examples in their order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from tfnlp.models.first_position import for_prediction
from tfnlp.optional_tensorflow import tf

if keras.backend.backend() == "jax":
    import jax
else:
    from tfnlp.training.graph_memory import freed_after_tracing

if TYPE_CHECKING:
    from tfnlp.data.labelled.batches import TaskBatches

Outputs = dict[str, np.ndarray | list[np.ndarray]]
_OF_LOSSES = ("sequence_output", "mention_logits")  # what no prediction follows from


def is_compiled() -> bool:
    """Return whether `forward` compiles a program for each shape of a batch."""
    return keras.backend.backend() == "jax"


def forward(model: keras.Model, names: Iterable[str]) -> _InTensorflow | _InJax:
    """Return a function of a batch that returns outputs of `model` as arrays.

    TensorFlow traces it once, JAX compiles it once for each shape of a batch. It uses the weights
    at the time of each call. While they stay the same, its second argument can be what its method
    `weights()` returned: of a bfloat16 model they are cast then, not in each call.
    """
    return (_InJax if is_compiled() else _InTensorflow)(model, list(names))


class _InTensorflow:
    def __init__(self, model: keras.Model, names: list[str]) -> None:
        # One graph serves all lengths.
        specs = {name: tf.TensorSpec(x.shape, x.dtype) for name, x in model.input.items()}
        self._names = list(specs)
        self._narrow = _narrow_variables(model)
        weights = [tf.TensorSpec(v.shape, dtype) for v, dtype in self._narrow]

        @tf.function(input_signature=[specs, weights], autograph=False)
        def run(batch: dict[str, tf.Tensor], weights: list[tf.Tensor]) -> dict[str, Any]:
            scope = keras.StatelessScope() if weights else contextlib.nullcontext()
            for (variable, _), value in zip(self._narrow, weights, strict=True):
                scope.add_update((variable, value))  # without a cast to the variable's dtype
            with freed_after_tracing(), scope:
                outputs = model(batch, training=False)
            return {name: outputs[name] for name in names}

        self._run = run

    def weights(self) -> list[tf.Tensor]:
        """Return what the weights are now, see `forward`."""
        return [tf.cast(variable.value, dtype) for variable, dtype in self._narrow]

    def __call__(
        self, batch: Mapping[str, Any], weights: list[tf.Tensor] | None = None
    ) -> dict[str, Any]:
        inputs = {name: tf.convert_to_tensor(batch[name]) for name in self._names}
        outputs = self._run(inputs, self.weights() if weights is None else weights)
        return tf.nest.map_structure(lambda x: x.numpy(), outputs)


class _InJax:
    def __init__(self, model: keras.Model, names: list[str]) -> None:
        self._model = model

        @jax.jit
        def run(weights: list[Any], others: list[Any], batch: dict[str, Any]) -> dict[str, Any]:
            outputs, _ = model.stateless_call(weights, others, batch, training=False)
            return {name: outputs[name] for name in names}

        self._run = run

    def weights(self) -> tuple[list[Any], list[Any]]:
        """Return what the weights are now, see `forward`."""
        model = self._model
        variables = (model.trainable_variables, model.non_trainable_variables)
        return tuple([v.value for v in part] for part in variables)

    def __call__(
        self, batch: Mapping[str, Any], weights: tuple[list[Any], list[Any]] | None = None
    ) -> dict[str, Any]:
        inputs = {name: np.asarray(batch[name]) for name in self._model.input}
        outputs = self._run(*(weights or self.weights()), inputs)
        return jax.tree.map(np.asarray, outputs)


def _narrow_variables(model: keras.Model) -> list[tuple[keras.Variable, str]]:
    """Return kernels and biases that layers of 16 bits cast in each call, and what they cast to."""
    found = {}
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dense) and layer.compute_dtype != layer.variable_dtype:
            own = [v for v in layer.weights if v.dtype == layer.variable_dtype]
            found.update({id(v): (v, layer.compute_dtype) for v in own})
    return list(found.values())


def predict(
    model: keras.Model, batches: TaskBatches, names: Iterable[str] | None = None
) -> Outputs:
    """Return outputs of `model` without dropout, for all examples.

    Args:
        model: a Keras model whose inputs and outputs are dicts.
        batches: their batches must hold the model's inputs; nothing else in them is used.
        names: outputs that are wanted; None: all that predictions follow from.

    Returns:
        dict of output name to values in the order of the N examples: an array [N, ...]; or, of
        outputs whose time axis T the model leaves open, a list of N arrays [T, ...], where T is
        the length that the example was padded to.
    """
    return predictor(model, names)(batches)


def predictor(
    model: keras.Model, names: Iterable[str] | None = None
) -> Callable[[TaskBatches], Outputs]:
    """Return a function of batches that returns `predict(model, batches, names)`.

    Examples are sorted by length and computed in batches of as many tokens as `batch_size` of the
    longest ones have. TensorFlow traces the model once for all calls, JAX once for each shape. It
    uses the weights at the time of each call.
    """
    names = list(names or (name for name in model.output if name not in _OF_LOSSES))
    timed = {name: None in model.output[name].shape[1:] for name in names}
    outputs = forward(for_prediction(model), names)

    def run(batches: TaskBatches) -> Outputs:
        found, weights = {name: {} for name in names}, outputs.weights()
        for batch, examples in batches.by_tokens(full=is_compiled()):
            for name, values in outputs(batch, weights).items():
                found[name].update(zip(examples.tolist(), values, strict=False))
        rows = {name: [x[n] for n in range(len(x))] for name, x in found.items()}
        return {name: x if timed[name] else np.stack(x) for name, x in rows.items()}

    return run
