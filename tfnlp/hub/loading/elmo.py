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
