"""A Reusable SavedModel, or a signature of any SavedModel, as a Keras 3 layer."""

import contextlib
import json
import os
import re
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.saving import serialization_lib

from tfnlp.files import is_remote
from tfnlp.hub.loading.dense_gradients import with_dense_gradients
from tfnlp.hub.loading.saved_model import load_module
from tfnlp.hub.loading.traces import (
    Trace,
    argument_names,
    as_tensors,
    callable_of,
    converted,
    described,
    dtype_policy,
    fitting,
    graphs_of,
    only_input,
    plain,
    reshaped,
    specs_of,
    symbol,
    traces_of,
)
from tfnlp.hub.traced import Untracked

_NOT_A_PATH = re.compile(r"[^A-Za-z0-9_.\-/]")
_NEEDS_HOST = ("LookupTable", "HashTable", "MutableHashTable", "Unicode", "RegexReplace")


@keras.saving.register_keras_serializable(package="tfnlp")
class Layer(keras.layers.Layer):
    """Layer that calls a SavedModel and trains it: `hub.KerasLayer` for Keras 3.

    `Layer(handle)(x)` is `module(x, training=training and layer.trainable)`; `training` is passed
    if the module takes it. The module's `variables` are the layer's, not copies, under the names
    that they were saved with. Those in `trainable_variables` are trained while the layer is
    `trainable`. While it is, the module's `regularization_losses` are added to the model's losses.

    Works in functional, Sequential and subclassed models, with every Keras optimizer, and in the
    scope of a `tf.distribute` strategy; the layer must then be made in that scope. It computes in
    the dtypes that the module was saved with, under any dtype policy: integers and floats of other
    widths are cast to these, and outputs keep the dtypes of the module.

    Args:
        handle: folder of a SavedModel, a `.tar.gz` of one or a URL, see `tfnlp.hub.resolve`; or
            something callable, such as what `tf.saved_model.load` returned or a sub-object of it.
        trainable: whether the module is trained.
        arguments: dict of further keyword arguments of the module; JSON values if the layer is to
            be saved.
        tags: of the graph to load; None: the only one.
        signature: name of a signature to call instead of the module itself; it can't be trained.
        signature_outputs_as_dict: True: return all outputs of a signature as a dict.
        output_key: the output to return from a dict of outputs.
        output_shape: shape without the batch size, nested like the outputs, if you know more of it
            than the module states.
        load_options: a `tf.saved_model.LoadOptions`.
        freeze: regular expression, or list of them; a variable is not trained if one of them is
            found in its `path`.
        **kwargs: `name`; `dtype` and `input_shape` as tutorials give them to `hub.KerasLayer`: a
            Sequential model that begins with the layer is built at once, for inputs
            `[B, *input_shape]`.

    Shapes: those of the module. Inputs and outputs are a tensor (dense or ragged, strings too), or
    a list or dict of tensors; lists of Python's strings and numbers become tensors. The only input
    of a signature, and a dict of one text, may be given as a tensor. A Keras mask is passed on if
    the module takes `mask`.

    Raises:
        ValueError: if the SavedModel is damaged, is not callable (then name a `signature`), or
            can't be trained although `trainable`; in a call, if no trace takes such inputs.
    """

    def __init__(
        self,
        handle: str | os.PathLike | Callable,
        trainable: bool = False,
        arguments: dict[str, Any] | None = None,
        tags: list[str] | None = None,
        signature: str | None = None,
        signature_outputs_as_dict: bool | None = None,
        output_key: str | None = None,
        output_shape: Any = None,
        load_options: tf.saved_model.LoadOptions | None = None,
        freeze: str | list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(handle, os.PathLike):
            handle = os.fspath(handle)
        if callable(handle) and (tags is not None or load_options is not None):
            raise ValueError(
                "tags and load_options need a handle to load from, but handle is an object"
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
        only = only_input(traces, bool(signature))
        specs = specs_of(traces, only)
        input_shape = kwargs.pop("input_shape", None)
        kwargs["dtype"] = dtype_policy(specs, kwargs.get("dtype"))
        super().__init__(trainable=trainable, autocast=False, **kwargs)
        if input_shape is not None:  # Sequential models are built from it
            self.input_shape = (None, *input_shape)
        self._input, self._specs = only, Untracked(specs)
        self.handle, self.resolved_object, self._label = handle, module, label
        self._output_key, self._signature = output_key, signature
        self._function, self._traces = function, Untracked(traces)
        self._takes = Untracked(argument_names(function, traces))
        self._given = Untracked(
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
        if signature:
            self._check_signature()
        elif signature_outputs_as_dict:
            raise ValueError("signature_outputs_as_dict is for a signature; name one")
        if trainable:
            self._check_trainable()
        if signature is None:
            for variable in wrapped_variables(module, freeze, label):
                self._track_variable(variable)
        self.supports_masking = "mask" in self._takes.value
        self.supports_jit = is_compilable(traces, function)
        self.built = True

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        # Keras treats each string or number in a list as an argument of its own.
        return super().__call__(as_tensors(self._specs.value, inputs), *args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        inputs, arguments = self._named(inputs), self._arguments(training, mask)
        trace = self._trace(inputs, arguments)
        if trace is not None:
            inputs = converted(trace.inputs, inputs)
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

    def compute_output_spec(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> Any:
        trace = self._trace(self._named(inputs), self._arguments(training, mask))
        if trace is None:
            return super().compute_output_spec(inputs, training=training, mask=mask)
        specs = self._chosen(trace.outputs)
        shapes = self._given.value["output_shape"]
        if shapes is not None:
            specs = reshaped(specs, shapes, inputs, lambda x, shape: tf.TensorSpec(shape, x.dtype))
        return tf.nest.map_structure(lambda spec: symbol(spec, self._label), specs)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        # Only the module knows the time axis of its outputs; a single mask is assumed to be valid.
        return None if isinstance(mask, dict | list | tuple) else mask

    @property
    def input_specs(self) -> list:
        """The inputs of each trace, a nest of `tf.TensorSpec`."""
        return [trace.inputs for trace in self._traces.value]

    @property
    def output_specs(self) -> list:
        """The outputs of each trace, a nest of `tf.TensorSpec`."""
        return [self._chosen(trace.outputs) for trace in self._traces.value]

    def get_config(self) -> dict[str, Any]:
        if not isinstance(self.handle, str):
            raise ValueError(
                f"layer {self.name} cannot be saved, as it was made from a loaded object; make it "
                "from the SavedModel's folder or URL"
            )
        given = {k: v for k, v in self._given.value.items() if v is not None and v != {}}
        try:
            json.dumps(given)
        except TypeError as error:
            raise ValueError(f"layer {self.name} cannot be saved: {given} is not JSON") from error
        return {**super().get_config(), "handle": self.handle, **given}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Layer":
        if serialization_lib.in_safe_mode() and is_remote(str(config.get("handle"))):
            raise ValueError(
                f"the model needs the SavedModel {config['handle']}, whose graph is code; if you "
                "trust it, load the model with safe_mode=False"
            )
        return cls(**config)

    def _check_signature(self) -> None:
        shown = f"signature={self._signature!r} of {self._label}"
        if (self._output_key is None) == (not self._given.value["signature_outputs_as_dict"]):
            names = ", ".join(sorted(self._function.structured_outputs))
            raise ValueError(
                f"{shown} returns a dict: give either output_key ({names}) or "
                "signature_outputs_as_dict=True"
            )
        if self.trainable:
            raise ValueError(f"{shown} cannot be trained; use trainable=False")

    def _check_trainable(self) -> None:
        flags = {t.others["training"] for t in self._traces.value if "training" in t.others}
        why = "cannot be called with training=True" if flags == {False} else ""
        if not getattr(self.resolved_object, "trainable_variables", None):
            why = "lists no trainable_variables, so that it cannot be trained"
        if why:
            raise ValueError(
                f"SavedModel {self._label} {why}; use it with trainable=False, or export it with "
                "tfnlp"
            )

    def _named(self, inputs: Any) -> Any:
        """Add the name of the input, if there is only one."""
        if self._input is None or not hasattr(inputs, "dtype"):
            return inputs
        return {self._input: inputs}

    def _arguments(self, training: bool | None, mask: Any) -> dict[str, Any]:
        arguments = dict(self._given.value["arguments"])
        if "training" in self._takes.value and "training" not in arguments:
            arguments["training"] = bool(training and self.trainable)
        if mask is not None and "mask" in self._takes.value:
            if all(x is not None for x in tf.nest.flatten(mask)):
                arguments["mask"] = mask
        return arguments

    def _trace(self, inputs: Any, arguments: dict[str, Any]) -> Trace | None:
        traces = self._traces.value
        if not traces:
            return None  # not a restored function: it checks its inputs itself
        trace = fitting(traces, inputs, arguments)
        if trace is None:
            given = {k: v for k, v in arguments.items() if k != "training"}
            known = dict.fromkeys(described(t.inputs) for t in traces)
            raise ValueError(
                f"SavedModel {self._label} takes {' or '.join(known)}, not {described(inputs)}"
                + (f" with arguments {given}" if given else "")
            )
        return trace

    def _chosen(self, outputs: Any) -> Any:
        key = self._output_key
        if not key:
            return outputs
        if not isinstance(outputs, dict) or key not in outputs:
            raise ValueError(
                f"output_key={key!r} is no key of what {self._label} returns: {described(outputs)}"
            )
        return outputs[key]


def wrapped_variables(
    module: Any, freeze: str | list[str] | None, label: str
) -> list[keras.Variable]:
    """Return the module's `variables` and `trainable_variables` as a list of `keras.Variable`s.

    Each holds the `tf.Variable` itself, under the path that it was saved with. It is trainable if
    the module trains it and no pattern of `freeze` is found in its path. A variable that two
    layers share is the same `keras.Variable` in both.
    """
    trained = list(getattr(module, "trainable_variables", None) or ())
    listed = list(getattr(module, "variables", None) or ())
    trained_ids, listed_ids = ({id(v) for v in variables} for variables in (trained, listed))
    variables = [*(v for v in trained if id(v) not in listed_ids), *listed]
    try:
        given = [freeze] if isinstance(freeze, str) else freeze or ()
        patterns = {re.compile(pattern): False for pattern in given}  # whether it was found
    except (re.error, TypeError) as error:
        raise ValueError(
            f"freeze={freeze!r} must be a regular expression or a list of them ({error})"
        ) from error
    used, wrapped = set(), []
    for variable in variables:
        path = _unique(_NOT_A_PATH.sub("_", variable.name.split(":")[0]).strip("/"), used)
        matches = [p for p in patterns if p.search(path)]
        patterns |= dict.fromkeys(matches, True)
        wrapped.append(_wrapped(variable, path, id(variable) in trained_ids and not matches))
    for pattern, found in patterns.items():
        if not found:
            some = ", ".join(sorted(used)[:3]) or "none"
            raise ValueError(
                f"freeze={pattern.pattern!r} is found in no variable of {label}; it has {some}, ..."
            )
    return wrapped


def is_compilable(traces: list[Trace], function: Callable) -> bool:
    """Return whether XLA may compile it: no strings as inputs or outputs, and no lookup tables."""
    specs = tf.nest.flatten([(trace.inputs, trace.outputs) for trace in traces])
    if not specs or any(spec.dtype == tf.string for spec in specs if hasattr(spec, "dtype")):
        return False
    library = graphs_of(function)[0].graph.as_graph_def().library
    return not any(
        node.op.startswith(_NEEDS_HOST) for body in library.function for node in body.node_def
    )


def _unique(path: str, used: set[str]) -> str:
    path = path or "variable"
    scope, _, name = path.rpartition("/")
    unique, number = path, 0
    while unique in used:  # the last part is kept: weight decay selects variables by it
        number += 1
        unique = f"{scope or 'variable'}_{number}/{name}"
    used.add(unique)
    return unique


def _wrapped(variable: tf.Variable, path: str, trainable: bool) -> keras.Variable:
    """Return the same `tf.Variable` as a Keras variable."""
    if not hasattr(variable, "_tfnlp_wrapped"):
        *scopes, name = path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            variable._tfnlp_wrapped = keras.Variable(
                variable, dtype=variable.dtype.name, trainable=trainable, autocast=False, name=name
            )
    return variable._tfnlp_wrapped
