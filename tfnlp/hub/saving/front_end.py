"""What makes a model's inputs from strings, in front of it: one module from strings to outputs."""

import keras
import tensorflow as tf

from tfnlp.hub.saving.module import KerasModule, serving


class TextModule(tf.__internal__.tracking.AutoTrackable):
    """`module(strings, training=False)` is `encoder(preprocessor(strings), training)`.

    Both are there under these names. What is trained is the encoder.

    Args:
        preprocessor: a `FrontEnd`'s module.
        encoder: a `KerasModule`.
    """

    def __init__(self, front, encoder):
        super().__init__()
        self.preprocessor, self.encoder = front.module, encoder
        self._front = lambda: front
        listed = {id(v) for v in encoder.variables}
        others = getattr(front.module, "variables", None) or ()
        self.variables = [*encoder.variables, *(v for v in others if id(v) not in listed)]
        self.trainable_variables = list(encoder.trainable_variables)
        self.regularization_losses = list(encoder.regularization_losses)
        for training in (False, True):
            self.__call__.get_concrete_function(front.input_spec, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs, training=False):
        features = self._front().fitted(self.preprocessor(inputs))
        return self.encoder(features, training=training)

    def signature(self, names=None):
        """Strings to the encoder's outputs; see `KerasModule.signature`."""
        outputs = self.encoder.outputs()
        return serving(self.__call__, self._front().input_spec, outputs, names)


class FrontEnd:
    """A preprocessor, and how what it returns becomes the inputs of a model.

    By name where the model takes a dict, by place where it takes a list; integers and floats are
    cast to the model's widths, and what the model does not take is dropped.

    Args:
        preprocessor: a trackable object whose `__call__` is a `tf.function` of strings `[B]`, such
            as `BertPreprocessorModule` or what `tf.saved_model.load` gave; or a Keras model, or a
            Keras layer of strings `[B]`.
        spec: nest of `tf.TensorSpec`s, the inputs of the model.

    `module` is the preprocessor as a trackable, `input_spec` what it takes, `specs` what the model
    takes, with the shapes that the preprocessor gives.

    Raises:
        ValueError: if it is none of these, or does not give what the model takes.
    """

    def __init__(self, preprocessor, spec):
        if isinstance(preprocessor, keras.layers.Layer):
            if not hasattr(preprocessor, "inputs"):
                text = keras.Input((), dtype="string", name="sentences")
                preprocessor = keras.Model(text, preprocessor(text))
            preprocessor = KerasModule(preprocessor)
        trackable = isinstance(preprocessor, tf.__internal__.tracking.Trackable)
        traced = callable(preprocessor) and hasattr(preprocessor.__call__, "get_concrete_function")
        if not trackable or not traced:
            raise ValueError(
                "preprocessor must be a Keras model or layer, or a trackable object whose "
                f"__call__ is a tf.function, not {type(preprocessor).__name__}"
            )
        self.module, self._spec = preprocessor, spec
        self.input_spec = _input_spec(preprocessor)
        trace = tf.function(lambda x: preprocessor(x), autograph=False).get_concrete_function(
            self.input_spec
        )
        given = self._chosen(trace.structured_outputs)
        self._check(given)
        self.specs = tf.nest.map_structure(
            lambda spec, x: tf.TensorSpec(x.shape, spec.dtype, spec.name), spec, given
        )

    def fitted(self, outputs):
        """What the preprocessor returned, as the model takes it."""
        return tf.nest.map_structure(
            lambda spec, x: tf.cast(x, spec.dtype), self._spec, self._chosen(outputs)
        )

    def signature(self):
        """A concrete function of named strings to the named tensors that it gives to the model."""
        names = [spec.name for spec in tf.nest.flatten(self._spec)]
        tensors = [spec.name for spec in tf.nest.flatten(self.input_spec)]

        def serve(**inputs):
            flat = [inputs[name] for name in tensors]
            outputs = self.module(tf.nest.pack_sequence_as(self.input_spec, flat))
            return dict(zip(names, tf.nest.flatten(self.fitted(outputs)), strict=True))

        specs = zip(tensors, tf.nest.flatten(self.input_spec), strict=True)
        return tf.function(serve, autograph=False).get_concrete_function(**dict(specs))

    def _chosen(self, outputs):
        spec = self._spec
        if isinstance(spec, dict):
            if not isinstance(outputs, dict) and len(spec) == 1:
                outputs = dict.fromkeys(spec, outputs)
            names = sorted(outputs) if isinstance(outputs, dict) else []
            missing = sorted(set(spec) - set(names))
            if missing:
                raise ValueError(
                    f"preprocessor gives {', '.join(names) or 'no dict'}, but the model also takes "
                    f"{', '.join(missing)}"
                )
            return {name: outputs[name] for name in spec}
        if isinstance(outputs, dict) and isinstance(spec, tf.TensorSpec):
            if len(outputs) != 1 and spec.name not in outputs:
                raise ValueError(
                    f"preprocessor gives {', '.join(sorted(outputs))}, but the model takes one "
                    f"tensor, {spec.name}"
                )
            return outputs[spec.name] if spec.name in outputs else next(iter(outputs.values()))
        if isinstance(outputs, list | tuple) and isinstance(spec, list | tuple):
            outputs = type(spec)(outputs)
        try:
            tf.nest.assert_same_structure(spec, outputs, check_types=False)
        except (TypeError, ValueError):
            raise ValueError(
                "preprocessor gives another structure of tensors than the model takes: "
                f"{_described(outputs)}, expected {_described(spec)}"
            ) from None
        return outputs

    def _check(self, given):
        for spec, x in zip(tf.nest.flatten(self._spec), tf.nest.flatten(given), strict=True):
            dense = isinstance(x, tf.Tensor | tf.TensorSpec)
            alike = dense and x.dtype.is_integer == spec.dtype.is_integer
            alike = alike and x.dtype.is_floating == spec.dtype.is_floating
            if not alike or not x.shape.is_compatible_with(spec.shape):
                raise ValueError(
                    f"preprocessor gives {_described(x)} for {spec.name}, but the model takes "
                    f"{_described(spec)}"
                )


def _input_spec(module):
    if isinstance(module, KerasModule):
        return module.input_spec()
    for function in getattr(module.__call__, "concrete_functions", ()):  # of a loaded one
        (inputs, *_), _ = function.structured_input_signature
        flat = tf.nest.flatten(inputs)
        if flat and all(isinstance(x, tf.TensorSpec) and x.dtype == tf.string for x in flat):
            if isinstance(inputs, tf.TensorSpec):
                return tf.TensorSpec(inputs.shape, inputs.dtype, "sentences")
            return inputs
    return tf.TensorSpec([None], "string", name="sentences")


def _described(x):
    def one(x):
        ragged = isinstance(x, tf.RaggedTensor | tf.RaggedTensorSpec)
        return f"{'ragged ' if ragged else ''}{x.dtype.name} {x.shape}"

    return str(tf.nest.map_structure(one, x))
