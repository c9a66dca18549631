"""A Reusable SavedModel as the backbone of a Keras 3 model, whoever wrote it.

`hub.KerasLayer` trains nothing in Keras 3, silently, and `keras.layers.TFSMLayer` knows neither
regularization losses nor most optimizers; the layer here has the module's own variables.
"""

import contextlib
import os
import re

import keras
import tensorflow as tf

from tfnlp.hub.module import Hidden

_OUTPUTS = ("sequence_output", "pooled_output", "encoder_outputs", "embedding_output", "lm_logits")
GRAPH, _NOT_A_PATH = "saved_model.pb", re.compile(r"[^A-Za-z0-9_.\-/]")
_TOKENS = re.compile(r"(^|/)(token|word)_embeddings?(/|$)")
_POSITIONS = re.compile(r"(^|/)position_embeddings?(/|$)")


@keras.saving.register_keras_serializable(package="tfnlp")
class SavedModelEncoder(keras.layers.Layer):
    """`layer(inputs, training)` is `module(inputs, training=training)`, and trains the module.

    The module is a SavedModel of TF-Hub's interface: called with a dict of named int tensors and
    a Python bool `training`, it returns a dict of float tensors or lists of these. Its
    `variables` are the layer's, not copies; those of `trainable_variables` can be trained; its
    `regularization_losses` are added to the model's losses while the layer is trainable. The path
    of a variable is the name it was exported under, so that those of a BERT or GPT of this
    library have the paths of the model that they come from.

    Build it in the strategy's scope. It computes in the dtype that the module was exported in.

    Dropout: a module of this library draws the seed of its masks inside the call, from
    TensorFlow's own generator, and other people's may do anything. So a run with dropout that is
    interrupted goes on with other masks than it would have had, unlike one with a model of
    `tfnlp.models`, and two runs are not equal.

    Args:
        path: folder of the SavedModel.
        trainable: False freezes it all: then there is no dropout either, nor a regularization loss.

    Shapes: int32 `[B, T]` each to what the module gives, `[B, T, H]` say, static where the inputs
    are.

    Raises:
        FileNotFoundError: if there is no SavedModel.
        ValueError: if it is damaged or is not callable with a dict of ids; with `trainable` also
            if it can't be called with `training=True` or has nothing to train.
    """

    def __init__(self, path, trainable=True, dtype="float32", **kwargs):
        super().__init__(trainable=trainable, dtype=dtype, **kwargs)
        self.directory = os.fspath(path)
        self._module = load_module(self.directory)
        self._specs = Hidden(_trace(self._module, self.directory, trainable))
        trained = {id(v) for v in getattr(self._module, "trainable_variables", ())}
        if trainable and not trained:
            raise ValueError(
                f"SavedModel {path} lists no trainable_variables, so that it cannot be trained; "
                "use it with trainable=False, or export it with tfnlp"
            )
        used = set()
        for variable in getattr(self._module, "variables", ()):
            self._track_variable(_wrapped(variable, id(variable) in trained, used))
        self.built = True

    def call(self, inputs, training=False):
        specs, output_specs = self._specs.value
        inputs = {name: tf.cast(inputs[name], spec.dtype) for name, spec in specs.items()}
        outputs = _plain(self._module(inputs, training=bool(training and self.trainable)))
        if self.trainable:
            for loss in getattr(self._module, "regularization_losses", ()):
                self.add_loss(loss())
        return keras.tree.map_structure(
            lambda spec, x: tf.ensure_shape(x, _shape(spec, inputs)), output_specs, outputs
        )

    def compute_output_spec(self, inputs, training=False):
        return keras.tree.map_structure(
            lambda spec: keras.KerasTensor(_shape(spec, inputs), spec.dtype.name),
            self._specs.value[1],
        )

    @property
    def module_inputs(self):
        """Dict of `tf.TensorSpec` by the names of the inputs."""
        return dict(self._specs.value[0])

    @property
    def vocab_size(self):
        """Rows of the table of tokens, None where no variable is named as one."""
        return self._rows(_TOKENS)

    @property
    def max_positions(self):
        """Rows of the table of positions, None where no variable is named as one."""
        return self._rows(_POSITIONS)

    def _rows(self, pattern):
        found = [v.shape[0] for v in self.variables if pattern.search(v.path) and len(v.shape) == 2]
        return found[0] if found else None

    def get_config(self):
        return {**super().get_config(), "path": self.directory}


def saved_encoder(path, trainable=True, seq_length=None, name="saved_encoder"):
    """The encoder of an exported BERT or GPT, as a functional model to use in place of
    `tfnlp.models.bert` or `tfnlp.models.gpt`.

    Args:
        path: the folder with `encoder` or `model` in it, or one of these itself.
        trainable: False freezes it all.
        seq_length: static length T, or None for any length.
        name: name of the model; its one layer is called "saved_model" (see `SavedModelEncoder`).

    Inputs: dict of int32 `[B, T]`, those of the module.

    Outputs: dict of those that the module has of `sequence_output` `[B, T, H]`, `pooled_output`
    `[B, H]`, `encoder_outputs` (list of L), `embedding_output` `[B, T, H]`, `lm_logits`
    `[B, T, V]`.

    Raises:
        FileNotFoundError, ValueError: as `SavedModelEncoder`; also if there is no
            `sequence_output`, or for a `seq_length` that the module can't take.
    """
    path = _module_folder(os.fspath(path))
    layer = SavedModelEncoder(path, trainable, name="saved_model")
    if seq_length is not None and layer.max_positions and seq_length > layer.max_positions:
        raise ValueError(
            f"seq_length={seq_length} is longer than the {layer.max_positions} positions of {path}"
        )
    inputs = {}
    for key, spec in layer.module_inputs.items():
        fixed = spec.shape[1]
        if None not in (fixed, seq_length) and fixed != seq_length:
            raise ValueError(f"seq_length={seq_length}, but {path} takes length {fixed} alone")
        inputs[key] = keras.Input((fixed or seq_length,), dtype=spec.dtype.name, name=key)
    outputs = layer(inputs)
    if "sequence_output" not in outputs:
        raise ValueError(
            f"SavedModel {path} gives {', '.join(sorted(outputs))}, but no sequence_output; "
            "expected the encoder of a BERT or the model of a GPT"
        )
    return keras.Model(inputs, {k: outputs[k] for k in _OUTPUTS if k in outputs}, name=name)


def load_module(path):
    """What `tf.saved_model.load` gives, in the current strategy's scope.

    Raises:
        FileNotFoundError: if there is no SavedModel.
        ValueError: if it can't be read.
    """
    if not os.path.isfile(os.path.join(path, GRAPH)):
        raise FileNotFoundError(
            f"{path} is not a SavedModel: it has no {GRAPH}; give a folder that `tfnlp export` "
            "wrote"
        )
    try:
        return tf.saved_model.load(path)
    except Exception as error:  # damage shows as OpError, DecodeError, OSError, KeyError, ...
        reason = str(getattr(error, "message", None) or error).strip().split("\n")[0]
        raise ValueError(
            f"SavedModel {path} cannot be read ({reason or type(error).__name__}); "
            "export or download it again"
        ) from error


def _module_folder(path):
    for name in ("encoder", "model"):
        if os.path.isdir(os.path.join(path, name)):
            return os.path.join(path, name)
    return path


def _trace(module, path, trainable):
    """Specs of the inputs and of the outputs, from what was traced before saving."""
    flags = {}
    call = module.__call__ if callable(module) else None
    for function in getattr(call, "concrete_functions", ()):
        (inputs, *others), named = function.structured_input_signature
        outputs = function.structured_outputs
        ids = isinstance(inputs, dict) and all(
            x.dtype.is_integer and x.shape.rank == 2 for x in inputs.values()
        )
        if ids and isinstance(outputs, dict):
            for flag in [x for x in [*others, *named.values()] if isinstance(x, bool)]:
                flags[flag] = inputs, outputs
    for flag in (False, True) if trainable else (False,):
        if flag not in flags:
            raise ValueError(
                f"SavedModel {path} cannot be called with a dict of named ids [B, T] and "
                f"training={flag}; expected an encoder of TF-Hub's interface, as `tfnlp export` "
                "writes it"
            )
    inputs, outputs = flags[False]
    return dict(inputs), _plain(outputs)


def _plain(outputs):
    """A dict of tensors, or of lists of them, without TensorFlow's wrappers."""
    return {k: list(x) if isinstance(x, list | tuple) else x for k, x in outputs.items()}


def _wrapped(variable, trainable, used):
    """The same `tf.Variable` as a Keras variable, under the path that it was exported with."""
    path = _NOT_A_PATH.sub("_", variable.name.split(":")[0]).strip("/") or "variable"
    scope, _, name = path.rpartition("/")
    unique, number = path, 0
    while unique in used:  # the last part stays: weight decay goes by it
        number += 1
        unique = f"{scope or 'variable'}_{number}/{name}"
    used.add(unique)
    *scopes, name = unique.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        wrapped = keras.Variable(
            variable, dtype=variable.dtype.name, trainable=trainable, autocast=False, name=name
        )
    if wrapped._value is not variable:
        raise RuntimeError(f"Keras copied the variable {unique} instead of taking it as its own")
    return wrapped


def _shape(spec, inputs):
    """`spec`'s shape, with the batch and length of the inputs where it leaves them open."""
    given = next(iter(inputs.values())).shape
    shape = list(spec.shape)
    for axis in range(min(2, len(shape) - 1)):
        shape[axis] = given[axis] if shape[axis] is None else shape[axis]
    return tuple(shape)
