"""The exported encoder of a BERT or GPT in place of the model that it was made from."""

import os
import re

import keras

from tfnlp.hub.loading.layer import Layer

_OUTPUTS = ("sequence_output", "pooled_output", "encoder_outputs", "embedding_output", "lm_logits")
_POSITIONS = re.compile(r"(^|/)position_embeddings?(/|$)")


def saved_encoder(path, trainable=True, seq_length=None, name="saved_encoder"):
    """The encoder of an exported BERT or GPT, as a functional model to use in place of
    `tfnlp.models.bert` or `tfnlp.models.gpt`.

    Args:
        path: the folder with `encoder` or `model` in it, or one of these itself.
        trainable: False freezes it all.
        seq_length: static length T, or None for any length.
        name: name of the model; its one layer is the `tfnlp.hub.Layer` "saved_model".

    Inputs: dict of int32 `[B, T]`, those of the module.

    Outputs: dict of those that the module has of `sequence_output` `[B, T, H]`, `pooled_output`
    `[B, H]`, `encoder_outputs` (list of L), `embedding_output` `[B, T, H]`, `lm_logits`
    `[B, T, V]`.

    Dropout: a module of this library draws the seed of its masks inside the call, from
    TensorFlow's own generator, and other people's may do anything. So a run with dropout that is
    interrupted goes on with other masks than it would have had, unlike one with a model of
    `tfnlp.models`, and two runs are not equal.

    Raises:
        FileNotFoundError: if there is no SavedModel.
        ValueError: see `tfnlp.hub.Layer`; also if the module is not called with a dict of ids, has
            no `sequence_output`, or can't take the `seq_length`.
    """
    path = _module_folder(os.fspath(path))
    layer = Layer(path, trainable, name="saved_model")
    specs, outputs = _specs(layer, path)
    positions = max_positions(layer)
    if seq_length is not None and positions and seq_length > positions:
        raise ValueError(
            f"seq_length={seq_length} is longer than the {positions} positions of {path}"
        )
    inputs = {}
    for key, spec in specs.items():
        fixed = spec.shape[1]
        if None not in (fixed, seq_length) and fixed != seq_length:
            raise ValueError(f"seq_length={seq_length}, but {path} takes length {fixed} alone")
        inputs[key] = keras.Input((fixed or seq_length,), dtype=spec.dtype.name, name=key)
    if seq_length is not None:  # the module was saved for any length
        layer.set_output_shape({key: _shapes(x, seq_length) for key, x in outputs.items()})
    outputs = layer(inputs)
    return keras.Model(inputs, {k: outputs[k] for k in _OUTPUTS if k in outputs}, name=name)


def max_positions(layer):
    """Rows of the table of positions of a `Layer`, None where no variable is named as one."""
    rows = [v.shape[0] for v in layer.variables if _POSITIONS.search(v.path) and len(v.shape) == 2]
    return rows[0] if rows else None


def _specs(layer, path):
    """Specs of the inputs and of the outputs."""
    for inputs, outputs in zip(layer.input_specs, layer.output_specs, strict=True):
        if isinstance(inputs, dict) and isinstance(outputs, dict):
            if all(x.dtype.is_integer and x.shape.rank == 2 for x in inputs.values()):
                if "sequence_output" in outputs:
                    return inputs, outputs
                raise ValueError(
                    f"SavedModel {path} gives {', '.join(sorted(outputs))}, but no "
                    "sequence_output; expected the encoder of a BERT or the model of a GPT"
                )
    raise ValueError(
        f"SavedModel {path} cannot be called with a dict of named ids [B, T]; expected an encoder "
        "of TF-Hub's interface, as `tfnlp export` writes it"
    )


def _shapes(spec, seq_length):
    """What `output_shape` is to be: of `[B, T, ...]` T is known."""
    if isinstance(spec, list | tuple):
        return [_shapes(x, seq_length) for x in spec]
    shape = spec.shape.as_list()[1:]
    return [seq_length, *shape[1:]] if len(shape) > 1 and shape[0] is None else shape


def _module_folder(path):
    for name in ("encoder", "model"):
        if os.path.isdir(os.path.join(path, name)):
            return os.path.join(path, name)
    return path
