"""A Reusable SavedModel, or a signature of any SavedModel, as a layer of Keras 3."""

import json
import os

import keras
import tensorflow as tf
from keras.src.saving import serialization_lib

from tfnlp.hub.loading.layer_calls import (
    argument_names,
    callable_of,
    dtype_policy,
    output_keys,
    reshaped,
)
from tfnlp.hub.loading.saved_model import load_module, remote
from tfnlp.hub.loading.traces import converted, described, fitting, plain, traces_of
from tfnlp.hub.loading.wrapped import is_compilable, wrapped_variables
from tfnlp.hub.saving.dense_gradients import with_dense_gradients
from tfnlp.hub.saving.module import Hidden


@keras.saving.register_keras_serializable(package="tfnlp")
class Layer(keras.layers.Layer):
    """`Layer(handle)(x)` is `module(x)`, and trains it: `hub.KerasLayer` for Keras 3.

    The module's `variables` are the layer's, not copies, under the names that they were saved
    with; those of `trainable_variables` are trained while the layer is `trainable`, in inference
    mode otherwise: `module(x, training=training and layer.trainable)`, where the module takes
    `training`. Its `regularization_losses` are added to the model's losses while it is trainable.

    Works in functional, Sequential and subclassed models, with every optimizer of Keras, and in
    the scope of a `tf.distribute` strategy, in which it must then be made. It computes in the
    dtypes that the module was saved with, under any dtype policy: integers and floats of other
    widths are cast to these, and what it returns has the dtypes that the module gives.

    Args:
        handle: folder of a SavedModel, a `.tar.gz` of one, a URL (see `tfnlp.hub.loading.resolve`); or
            something callable, such as what `tf.saved_model.load` gave or a sub-object of it.
        trainable: whether the module is trained.
        arguments: dict of further keyword arguments of the module, JSON where the layer is to be
            saved.
        tags: of the graph to load; None: the only one.
        signature: name of a signature to call instead of the module itself; it can't be trained.
        signature_outputs_as_dict: True where a signature's outputs are all wanted, as a dict.
        output_key: the output to return of a dict of them.
        output_shape: shape without the batch size, nested like the outputs, where the module says
            less than you know.
        load_options: a `tf.saved_model.LoadOptions`.
        freeze: regular expression, or list of them; variables whose `path` one of them is found
            in are not trained.
        **kwargs: `name`; `dtype` and `input_shape` as tutorials give them to `hub.KerasLayer`.

    Shapes: what the module takes to what it gives: a tensor (dense or ragged, strings too), or a
    list or dict of them. A Keras mask is handed on where the module takes `mask`.

    Raises:
        FileNotFoundError: if there is no SavedModel.
        ValueError: if it is damaged, is not callable (then name a `signature`), or is to be
            trained and can't be; in a call, if no trace takes such inputs; in `get_config`, if
            the handle is not a string.
    """

    def __init__(
        self,
        handle,
        trainable=False,
        arguments=None,
        tags=None,
        signature=None,
        signature_outputs_as_dict=None,
        output_key=None,
        output_shape=None,
        load_options=None,
        freeze=None,
        **kwargs,
    ):
        if isinstance(handle, os.PathLike):
            handle = os.fspath(handle)
        if callable(handle) and (tags is not None or load_options is not None):
            raise ValueError(
                "tags and load_options are for what is loaded; handle is an object already"
            )
        module = handle if callable(handle) else load_module(handle, tags, load_options)
        label = handle if isinstance(handle, str) else type(handle).__name__
        old_format = getattr(module, "is_tf1_hub_module", False)
        if old_format:
            signature = signature or "default"
            if not signature_outputs_as_dict:
                output_key = output_key or "default"
        function = callable_of(module, label, signature)
        traces = traces_of(function)
        kwargs.pop("input_shape", None)  # the module says what it takes
        kwargs["dtype"] = dtype_policy(traces, kwargs.get("dtype"))
        super().__init__(trainable=trainable, autocast=False, **kwargs)
        self.handle, self.resolved_object, self._label = handle, module, label
        self._output_key, self._signature = output_key, signature
        self._function, self._traces = function, Hidden(traces)
        self._takes = Hidden(argument_names(function, traces))
        self._given = Hidden(
            dict(
                arguments=dict(arguments or {}),
                tags=tags,
                signature=signature,
                signature_outputs_as_dict=signature_outputs_as_dict,
                output_key=output_key,
                output_shape=output_shape,
                load_options=load_options,
                freeze=freeze,
            )
        )
        if signature and (output_key is None) == (not signature_outputs_as_dict):
            raise ValueError(
                f"signature={signature!r} of {label} returns a dict: give either output_key "
                f"({output_keys(function)}) or signature_outputs_as_dict=True"
            )
        if signature_outputs_as_dict and not signature:
            raise ValueError("signature_outputs_as_dict is for a signature; name one")
        if signature is None:
            if trainable:
                self._check_trainable()
            for variable in wrapped_variables(module, freeze, label):
                self._track_variable(variable)
        elif trainable:
            raise ValueError(
                f"signature={signature!r} of {label} cannot be trained; use trainable=False"
                + ("" if old_format else ", or the module itself")
            )
        self.supports_masking = "mask" in self._takes.value
        self.supports_jit = is_compilable(traces, function)
        self.built = True

    def __call__(self, inputs, *args, **kwargs):
        # Keras takes the strings and numbers of a list for so many arguments.
        return super().__call__(self._nest(inputs), *args, **kwargs)

    def call(self, inputs, training=None, mask=None):
        inputs, arguments = self._named(inputs), self._arguments(training, mask)
        trace = self._trace(inputs, arguments)
        if trace is not None:
            inputs = converted(trace, inputs)
        if self._signature:
            outputs = self._function(**inputs, **arguments)
        elif self.trainable and arguments.get("training", True):
            outputs = with_dense_gradients(self._function, inputs, **arguments)
        else:
            outputs = self._function(inputs, **arguments)
        if self.trainable and self._signature is None:
            for loss in getattr(self.resolved_object, "regularization_losses", ()):
                self.add_loss(loss())
        outputs = self._chosen(plain(outputs))
        shapes = self._given.value["output_shape"]
        return outputs if shapes is None else reshaped(outputs, shapes, inputs, tf.ensure_shape)

    def compute_output_spec(self, inputs, training=None, mask=None):
        trace = self._trace(self._named(inputs), self._arguments(training, mask))
        if trace is None:
            return super().compute_output_spec(inputs, training=training, mask=mask)
        specs = self._chosen(trace.outputs)
        shapes = self._given.value["output_shape"]
        if shapes is not None:
            specs = reshaped(specs, shapes, inputs, lambda x, shape: tf.TensorSpec(shape, x.dtype))
        return tf.nest.map_structure(self._symbol, specs)

    def compute_mask(self, inputs, mask=None):
        # What becomes of time the module alone knows; one tensor in, one out keeps it.
        return None if isinstance(mask, dict | list | tuple) else mask

    @property
    def input_specs(self):
        """Nest of `tf.TensorSpec`, of each call that was traced."""
        return [trace.inputs for trace in self._traces.value]

    @property
    def output_specs(self):
        """Nest of `tf.TensorSpec`, of each call that was traced."""
        return [self._chosen(trace.outputs) for trace in self._traces.value]

    def set_output_shape(self, output_shape):
        """Says more of the shapes than the module does; see the argument `output_shape`."""
        self._given.value["output_shape"] = output_shape

    def get_config(self):
        if not isinstance(self.handle, str):
            raise ValueError(
                f"layer {self.name} cannot be saved, as it was made from a loaded object; make it "
                "from the SavedModel's folder or URL"
            )
        given = {k: v for k, v in self._given.value.items() if v is not None and v != {}}
        if "load_options" in given:
            raise ValueError(f"layer {self.name} has load_options, which cannot be saved")
        for key, value in given.items():
            try:
                json.dumps(value)
            except TypeError as error:
                raise ValueError(
                    f"layer {self.name} cannot be saved: {key}={value!r} is not JSON"
                ) from error
        return {**super().get_config(), "handle": self.handle, **given}

    @classmethod
    def from_config(cls, config):
        if serialization_lib.in_safe_mode() and remote(config.get("handle")):
            raise ValueError(
                f"the model asks for the SavedModel {config['handle']}, whose graph is code; if "
                "you trust it, load the model with safe_mode=False"
            )
        try:
            return cls(**config)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"layer {config.get('name')} was saved with the SavedModel {config['handle']}, "
                f"which must be there to load it: {error}"
            ) from error

    def _check_trainable(self):
        if not getattr(self.resolved_object, "trainable_variables", None):
            raise ValueError(
                f"SavedModel {self._label} lists no trainable_variables, so that it cannot be "
                "trained; use it with trainable=False, or export it with tfnlp"
            )
        flags = {t.arguments["training"] for t in self._traces.value if "training" in t.arguments}
        if flags == {False}:
            raise ValueError(
                f"SavedModel {self._label} cannot be called with training=True; use it with "
                "trainable=False, or export it with tfnlp"
            )

    def _nest(self, inputs):
        """Plain lists of strings and numbers as tensors, where tensors are meant."""
        if any(not hasattr(x, "dtype") for x in tf.nest.flatten(inputs)):
            if any(isinstance(spec, dict | list | tuple) for spec in self.input_specs):
                return tf.nest.map_structure(tf.convert_to_tensor, inputs)
            return tf.convert_to_tensor(inputs)
        return inputs

    def _named(self, inputs):
        """What a signature of one input takes may come without its name."""
        names = self._traces.value[0].inputs if self._signature else ()
        if len(names) == 1 and not isinstance(inputs, dict):
            return dict.fromkeys(names, inputs)
        return inputs

    def _arguments(self, training, mask):
        arguments = dict(self._given.value["arguments"])
        if "training" in self._takes.value and "training" not in arguments:
            arguments["training"] = bool(training and self.trainable)
        if mask is not None and "mask" in self._takes.value:
            if all(x is not None for x in tf.nest.flatten(mask)):
                arguments["mask"] = mask
        return arguments

    def _trace(self, inputs, arguments):
        traces = self._traces.value
        if not traces:
            return None  # not restored: anything may go
        trace = fitting(traces, inputs, arguments)
        if trace is None:
            given = {k: v for k, v in arguments.items() if k != "training"}
            known = dict.fromkeys(described(t.inputs) for t in traces)
            raise ValueError(
                f"SavedModel {self._label} takes {' or '.join(known)}, not {described(inputs)}"
                + (f" with arguments {given}" if given else "")
            )
        return trace

    def _chosen(self, outputs):
        key = self._output_key
        if not key:
            return outputs
        if not isinstance(outputs, dict):
            raise ValueError(
                f"output_key={key!r}, but {self._label} returns {described(outputs)}, not a dict"
            )
        if key not in outputs:
            raise ValueError(
                f"output_key={key!r} is not one of {', '.join(sorted(outputs))}, which "
                f"{self._label} returns"
            )
        return outputs[key]

    def _symbol(self, spec):
        if spec.shape.rank is None:
            raise ValueError(
                f"{self._label} does not say the shape of what it returns; give output_shape"
            )
        ragged = {}
        if isinstance(spec, tf.RaggedTensorSpec):
            splits = spec.row_splits_dtype.name
            ragged = dict(ragged=True, ragged_rank=spec.ragged_rank, row_splits_dtype=splits)
        return keras.KerasTensor(tuple(spec.shape), spec.dtype.name, **ragged)
