"""The exported encoder of a BERT or GPT as a Keras model, an exported ELMo as a function."""

import os
import re
from collections.abc import Callable

import keras
import tensorflow as tf

from tfnlp.hub.loading.checks import read_about
from tfnlp.hub.loading.layer import Layer
from tfnlp.hub.loading.saved_model import load_module

_OUTPUTS = ("sequence_output", "pooled_output", "encoder_outputs", "embedding_output", "lm_logits")
_POSITIONS = re.compile(r"(^|/)position_embeddings?(/|$)")


def saved_encoder(path: str | os.PathLike, trainable: bool = True) -> keras.Model:
    """Load an exported BERT or GPT as a functional model.

    It is used like a model of `tfnlp.models.bert` or `tfnlp.models.gpt`. Its one layer is the
    `tfnlp.hub.Layer` "saved_model".

    Args:
        path: the folder with `encoder` or `model` in it, or one of these itself.
        trainable: False freezes all weights.

    Inputs: dict of int32 `[B, T]`, the inputs of the module.

    Outputs: dict; those of `sequence_output` `[B, T, H]`, `pooled_output` `[B, H]`,
    `encoder_outputs` (list of L), `embedding_output` `[B, T, H]` and `lm_logits` `[B, T, V]` that
    the module has.

    Dropout: a module of this library draws the seed of its masks inside the call, from
    TensorFlow's own generator; modules from elsewhere may do something else. So two runs with
    dropout are not equal, and an interrupted run continues with other masks. Runs with a model of
    `tfnlp.models` are reproducible.

    Raises:
        ValueError: see `tfnlp.hub.Layer`; also if the module is not called with a dict of ids, or
            has no `sequence_output`.
    """
    path = _module_folder(os.fspath(path))
    layer = Layer(path, trainable, name="saved_model")
    inputs = {
        key: keras.Input((spec.shape[1],), dtype=spec.dtype.name, name=key)
        for key, spec in _input_specs(layer, path).items()
    }
    outputs = layer(inputs)
    outputs = {name: outputs[name] for name in _OUTPUTS if name in outputs}
    return keras.Model(inputs, outputs, name="saved_encoder")


def max_positions(layer: Layer) -> int | None:
    """Return the longest sequence of the module of a `Layer`; None if that is unknown.

    tfnlp's modules say it; of others it is the number of rows of the position embeddings.
    """
    if isinstance(layer.handle, str):
        stated = read_about(layer.handle).get("max_positions")
        if isinstance(stated, int) and stated > 0:
            return stated
    rows = [v.shape[0] for v in layer.variables if _POSITIONS.search(v.path) and len(v.shape) == 2]
    return rows[0] if rows else None


def _input_specs(layer: Layer, path: str) -> dict[str, tf.TensorSpec]:
    for inputs, outputs in zip(layer.input_specs, layer.output_specs, strict=True):
        named = isinstance(inputs, dict) and isinstance(outputs, dict)
        if named and all(x.dtype.is_integer and x.shape.rank == 2 for x in inputs.values()):
            if "sequence_output" in outputs:
                return inputs
    raise ValueError(
        f"SavedModel {path} does not return a sequence_output for a dict of named ids [B, T]; "
        "expected the encoder of a BERT or the model of a GPT, as `tfnlp export` writes it"
    )


def _module_folder(path: str) -> str:
    for name in ("encoder", "model"):
        if os.path.isdir(os.path.join(path, name)):
            return os.path.join(path, name)
    return path


def saved_elmo(path: str | os.PathLike) -> Callable[[dict], dict[str, tf.Tensor]]:
    """Load an exported ELMo, or the published one, for `tfnlp.hub.sentence_layers`.

    Returns:
        a function from a dict of `tokens`, strings `[B, T]`, and `sequence_len`, int `[B]`, to a
        dict of `word_emb` `[B, T, P]`, `lstm_outputs1`, ... `[B, T, 2P]` and the module's other
        outputs. It does not train. Its attribute `module` is the loaded module.
    """
    path = os.fspath(path)
    module = load_module(path)
    function = module.signatures.get("tokens")  # also of the published module, which has no other
    outputs = {} if function is None else function.structured_outputs
    if not {"word_emb", "lstm_outputs1"} <= outputs.keys():
        raise ValueError(
            f"SavedModel {path} is not an ELMo: it does not return word_emb, lstm_outputs1, ... "
            "for tokens and sequence_len; give one that `tfnlp export` wrote"
        )

    def layers(inputs: dict) -> dict:
        tokens = tf.convert_to_tensor(inputs["tokens"])
        return function(tokens=tokens, sequence_len=tf.cast(inputs["sequence_len"], "int32"))

    layers.module = module  # without it the signature is not valid
    return layers
