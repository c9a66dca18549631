"""Strings to the outputs of an encoder that reads them up to a length."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfnlp.families import fitting

if TYPE_CHECKING:
    from tfnlp.convert.pretrained import Pretrained


def string_vectors(
    loaded: Pretrained, preprocessor: Callable, special: int
) -> Callable[[list[str]], Any]:
    """Return a function of strings to the outputs of a model; it warns of texts that are cut.

    Args:
        loaded: The model.
        preprocessor: Class of the module that packs strings, made of a tokenizer and a length.
        special: Special tokens that it adds to a text.
    """
    import numpy as np
    import tensorflow as tf

    length = min(128, fitting.max_positions(loaded) or 128)
    pack = preprocessor(loaded.tokenizer, length)

    def vectors(texts: list[str]) -> Any:
        inputs = pack(tf.constant(texts))
        full = np.flatnonzero(inputs["input_mask"].numpy().all(1))  # these may have been longer
        if len(full):
            tokens = loaded.tokenizer.tokenize(tf.gather(texts, full)).row_lengths().numpy()
            cut = int((tokens + special > length).sum())
            if cut:
                warnings.warn(
                    f"{cut:,} of {len(texts):,} texts are longer than {length} tokens and were cut",
                    stacklevel=3,
                )
        return loaded.encoder(inputs)

    return vectors
