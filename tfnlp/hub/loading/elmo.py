"""An exported ELMo as a function from words to the layers of the biLM."""

import os
from collections.abc import Callable

import tensorflow as tf

from tfnlp.hub.loading.saved_model import load_module


def saved_elmo(path: str | os.PathLike) -> Callable[[dict], dict[str, tf.Tensor]]:
    """Load an exported ELMo, or the published one, for `tfnlp.hub.sentence_layers`.

    Returns:
        a function from a dict of `tokens`, strings `[B, T]`, and `sequence_len`, int `[B]`, to a
        dict of `word_emb` `[B, T, P]`, `lstm_outputs1`, ... `[B, T, 2P]` and the module's other
        outputs. It does not train. Its attribute `module` is the loaded module.
    """
    path = os.fspath(path)
    module = load_module(path)
    probe = {"tokens": tf.constant([["a"]]), "sequence_len": tf.constant([1])}
    # The published module has signatures only. They are valid as long as their module exists.
    for function in (module, module.signatures.get("tokens")):
        if not callable(function):
            continue
        layers = _layers_function(function, module)
        try:
            outputs = layers(probe)
        except (TypeError, ValueError, tf.errors.InvalidArgumentError):
            continue  # it takes other inputs
        if isinstance(outputs, dict) and {"word_emb", "lstm_outputs1"} <= outputs.keys():
            return layers
    raise ValueError(
        f"SavedModel {path} is not an ELMo: it does not return word_emb, lstm_outputs1, ... for "
        "tokens and sequence_len; give one that `tfnlp export` wrote"
    )


def _layers_function(function: Callable, module: object) -> Callable[[dict], dict]:
    def layers(inputs: dict) -> dict:
        tokens = tf.convert_to_tensor(inputs["tokens"])
        lengths = tf.cast(inputs["sequence_len"], "int32")
        if function is module:
            return function({"tokens": tokens, "sequence_len": lengths})
        return function(tokens=tokens, sequence_len=lengths)

    layers.module = module
    return layers
