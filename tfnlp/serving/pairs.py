"""Encoders and GPTs beside their preprocessors: vectors, and masks that a BERT fills."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.hub import Inspection, saved_tokenizer
from tfnlp.hub.loading.checks import read_about
from tfnlp.hub.modules.fill import fill_masks
from tfnlp.layers import SentencePooling
from tfnlp.serving.actions import texts, vectors
from tfnlp.serving.actions.action import Action
from tfnlp.serving.actions.values import array_of

_TOP = 5
_MEAN = "the mean of `sequence_output` over the tokens of a text"


def pair_actions(
    preprocess: Callable, encode: Callable, mlm: Callable | None = None, folder: str | None = None
) -> list[Action]:
    """Return the actions of an encoder and its preprocessor.

    Args:
        preprocess: strings to a dict of int32 `[B, T]`, `input_mask` among them.
        encode: such a dict to a dict with `sequence_output`.
        mlm: the same with `masked_lm_positions` to a dict with `mlm_logits`; or None.
        folder: that of both modules, for the tokenizer that masks need.
    """
    mean = SentencePooling("mean")

    @tf.function(input_signature=[tf.TensorSpec([None], "string")], autograph=False)
    def means(strings: tf.Tensor) -> tf.Tensor:
        packed = preprocess(strings)
        return mean(encode(packed)["sequence_output"], mask=packed["input_mask"])  # [B, H]

    def embed(strings: list[str]) -> np.ndarray:
        return means(tf.constant(strings)).numpy()

    actions = [vectors.neighbours(embed, _MEAN)]
    if mlm is not None:
        actions.insert(0, _fill(mlm, folder))
    return actions


def _fill(mlm: Callable, folder: str) -> Action:
    tokenizer = saved_tokenizer(folder)
    positions = read_about(f"{folder}/encoder").get("max_positions") or 512

    @tf.function(input_signature=[tf.TensorSpec([None], "string")], autograph=False)
    def filled(text: tf.Tensor) -> dict[str, tf.Tensor]:
        def logits(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
            return mlm(inputs)["mlm_logits"]

        return fill_masks(text, tokenizer, logits, positions, min(_TOP, tokenizer.vocab_size))

    def call(text: list[str]) -> dict[str, Any]:
        return {name: array_of(x) for name, x in filled(tf.constant(text)).items()}

    return texts.fill(call)


def has_mlm(found: Inspection) -> bool:
    """Return whether an encoder has a masked-LM head, and reads what `fill_masks` gives it."""
    calls = [call for f in found.functions if f.name == "mlm" for call in f.calls]
    names = {"input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions"}
    return any(set(next(iter(call.arguments.values()))) == names for call in calls)


def reads_ids(found: Inspection, name: str = "") -> set[str]:
    """Return the inputs of a module that takes a dict of ids; an empty set for another one.

    With a name it is a sub-object of the module that is called.
    """
    for function in found.functions:
        for call in function.calls if function.name == name else ():
            first = next(iter(call.arguments.values()), None)
            if isinstance(first, dict) and {"input_word_ids", "input_mask"} <= set(first):
                return set(first)
    return set()
