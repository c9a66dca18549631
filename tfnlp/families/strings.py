"""Strings to the outputs of an encoder that reads them up to a length."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfnlp.families import fitting
from tfnlp.families.sentences import warn_of_cut

_TOKENS = 4096  # of a batch

if TYPE_CHECKING:
    from tfnlp.checkpoints.pretrained import Pretrained


def string_vectors(
    loaded: Pretrained, preprocessor: Callable, special: int
) -> Callable[[list[str]], Any]:
    """Return a function of strings to the outputs of a model; it warns of texts that are cut.

    `preprocessor` is the class of the module that packs strings, made of a tokenizer and a length;
    it adds `special` tokens to a text.
    """
    import numpy as np
    import tensorflow as tf

    from tfnlp.training.prediction import forward

    length = min(128, fitting.max_positions(loaded) or 128)
    pack = preprocessor(loaded.tokenizer, length)
    call = None if loaded.saved else forward(loaded.encoder, list(loaded.encoder.output))

    def vectors(texts: list[str]) -> Any:
        inputs = pack(tf.constant(texts))
        full = np.flatnonzero(inputs["input_mask"].numpy().all(1))  # these may have been longer
        if len(full):
            tokens = loaded.tokenizer.tokenize(tf.gather(texts, full)).row_lengths().numpy()
            cut = int((tokens + special > length).sum())
            warn_of_cut(cut, len(texts), length)
        if call is None or not len(texts):  # a module reads one length
            return loaded.encoder(inputs)
        return _by_length(call, {name: inputs[name].numpy() for name in loaded.encoder.input})

    return vectors


def _by_length(call: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs of a model for int32 `[N, T]`, computed in batches of similar length.

    Those with a time axis are `[N, T, ...]`, zeros at padding.
    """
    import numpy as np
    import tensorflow as tf

    from tfnlp.data import bucket_lengths, token_batches

    sizes = np.maximum(inputs["input_mask"].sum(1), 1)
    count, length = inputs["input_mask"].shape
    found, weights = None, call.weights()
    for width, rows, _ in token_batches(sizes, bucket_lengths(sizes, count), _TOKENS):
        outputs = call({name: x[rows, :width] for name, x in inputs.items()}, weights)
        if found is None:
            found = tf.nest.map_structure(
                lambda x: np.zeros(
                    (count, length, *x.shape[2:]) if x.ndim > 2 else (count, *x.shape[1:]), x.dtype
                ),
                outputs,
            )
        for whole, part in zip(tf.nest.flatten(found), tf.nest.flatten(outputs), strict=True):
            if part.ndim > 2:  # [B, T, ...]
                real = inputs["input_mask"][rows, :width, np.newaxis] > 0
                whole[rows, :width] = np.where(real, part, 0)
            else:
                whole[rows] = part
    return tf.nest.map_structure(tf.constant, found)
