"""A preprocessor and an encoder as one module from strings to outputs."""

from collections.abc import Callable, Collection
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.loading.traces import described
from tfnlp.hub.saving.keras_hub import KerasHubPreprocessor, is_of_keras_hub
from tfnlp.hub.saving.keras_module import KerasModule, serving

PAIRS = "serving_pairs"  # the signature of two segments


class TextModule(tf.__internal__.tracking.AutoTrackable):
    """Module that computes `encoder(preprocessor(strings), training)`.

    Its attributes `preprocessor` and `encoder` are the two modules. Only the encoder is trained.
    """

    def __init__(self, adapter: "PreprocessorAdapter", encoder: KerasModule) -> None:
        super().__init__()
        self.preprocessor, self.encoder = adapter.module, encoder
        self._adapter = lambda: adapter
        listed = {id(v) for v in encoder.variables}
        others = getattr(adapter.module, "variables", None) or ()
        self.variables = [*encoder.variables, *(v for v in others if id(v) not in listed)]
        self.trainable_variables = list(encoder.trainable_variables)
        self.regularization_losses = list(encoder.regularization_losses)
        for spec in (adapter.input_spec, adapter.pair_spec):
            for training in (False, True):
                if spec is not None:
                    self.__call__.get_concrete_function(spec, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs: Any, training: bool = False) -> Any:
        features = self._adapter().fitted(self.preprocessor(inputs))
        return self.encoder(features, training=training)

    def signature(self, names: Collection[str] | None = None, pairs: bool = False) -> Callable:
        """Return strings, or `pairs` of strings, to outputs: see `KerasModule.signature`."""
        adapter, outputs = self._adapter(), self.encoder.outputs()
        spec = adapter.pair_spec if pairs else adapter.input_spec
        return serving(self.__call__, spec, outputs, names)


class PreprocessorAdapter:
    """A preprocessor whose outputs are converted to the inputs of a model.

    The outputs are matched by name if the model takes a dict, by position if it takes a list.
    Integers and floats are cast to the model's widths, booleans and integers to each other, and
    outputs that the model does not take are dropped.

    Args:
        preprocessor: see `tfnlp.hub.export`.
        spec: nest of `tf.TensorSpec`s, the inputs of the model.

    Attributes:
        module: the preprocessor as a trackable object.
        input_spec: the specs of its inputs.
        pair_spec: the specs of two segments for a preprocessor that takes these too; else None.
        specs: the inputs of the model, with the shapes of the preprocessor's outputs.
    """

    def __init__(self, preprocessor: Any, spec: Any) -> None:
        if is_of_keras_hub(preprocessor):
            preprocessor = KerasHubPreprocessor(preprocessor)
        elif isinstance(preprocessor, keras.layers.Layer):
            if not hasattr(preprocessor, "inputs"):
                text = keras.Input((), dtype="string", name="sentences")
                preprocessor = keras.Model(text, preprocessor(text))
            preprocessor = KerasModule(preprocessor)
        traced = callable(preprocessor) and hasattr(preprocessor.__call__, "get_concrete_function")
        if not traced:
            raise ValueError(
                "preprocessor must be a Keras model or layer, or a trackable object whose "
                f"__call__ is a tf.function, not {type(preprocessor).__name__}"
            )
        self.module, self._spec = preprocessor, spec
        self.input_spec = _input_spec(preprocessor)
        self.pair_spec = getattr(preprocessor, "pair_spec", None)
        trace = tf.function(lambda x: preprocessor(x), autograph=False).get_concrete_function(
            self.input_spec
        )
        given = self._chosen(trace.structured_outputs)
        self._check(given)
        self.specs = tf.nest.map_structure(
            lambda spec, x: tf.TensorSpec(x.shape, spec.dtype, spec.name), spec, given
        )

    def fitted(self, outputs: Any) -> Any:
        """Convert the preprocessor's outputs to the model's inputs."""
        return tf.nest.map_structure(
            lambda spec, x: tf.cast(x, spec.dtype), self._spec, self._chosen(outputs)
        )

    def signatures(self) -> dict[str, Callable]:
        """Return the concrete functions of named strings to the named inputs of the model."""
        found = {"serving_default": self._signature(self.input_spec)}
        if self.pair_spec is not None:
            found[PAIRS] = self._signature(self.pair_spec)
        return found

    def _signature(self, given: Any) -> Callable:
        def call(inputs: Any, training: bool) -> Any:
            return self.fitted(self.module(inputs))

        return serving(call, given, self._spec)

    def _chosen(self, outputs: Any) -> Any:
        spec = self._spec
        if isinstance(spec, dict):
            if not isinstance(outputs, dict) and len(spec) == 1:
                outputs = dict.fromkeys(spec, outputs)
            if isinstance(outputs, dict) and set(spec) <= set(outputs):
                return {name: outputs[name] for name in spec}
        elif isinstance(outputs, dict) and isinstance(spec, tf.TensorSpec):
            if len(outputs) == 1 or spec.name in outputs:
                return outputs.get(spec.name, next(iter(outputs.values())))
        elif isinstance(outputs, list | tuple) and isinstance(spec, list | tuple):
            outputs = type(spec)(outputs)
        try:
            tf.nest.assert_same_structure(spec, outputs, check_types=False)
        except (TypeError, ValueError):
            raise ValueError(
                "preprocessor returns another structure of tensors than the model takes: "
                f"{described(outputs)}, expected {described(spec)}"
            ) from None
        return outputs

    def _check(self, given: Any) -> None:
        for spec, x in zip(tf.nest.flatten(self._spec), tf.nest.flatten(given), strict=True):
            dense = isinstance(x, tf.Tensor | tf.TensorSpec)
            alike = dense and _kind(x.dtype) == _kind(spec.dtype)
            if not alike or not x.shape.is_compatible_with(spec.shape):
                raise ValueError(
                    f"preprocessor returns {described(x)} for {spec.name}, but the model takes "
                    f"{described(spec)}"
                )


def _kind(dtype: tf.DType) -> str:
    """Return what a dtype can be cast within: masks are booleans or integers."""
    if dtype.is_integer or dtype.is_bool:
        return "integer"
    return "floating" if dtype.is_floating else dtype.name


def _input_spec(module: Any) -> Any:
    if isinstance(module, KerasModule):
        return module.input_spec()
    for function in getattr(module.__call__, "concrete_functions", ()):  # of a loaded module
        (inputs, *_), _ = function.structured_input_signature
        flat = tf.nest.flatten(inputs)
        if flat and all(isinstance(x, tf.TensorSpec) and x.dtype == tf.string for x in flat):
            if isinstance(inputs, tf.TensorSpec):
                return tf.TensorSpec(inputs.shape, inputs.dtype, "sentences")
            return inputs
    return tf.TensorSpec([None], "string", name="sentences")
