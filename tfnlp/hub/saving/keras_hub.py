"""Preprocessors and tokenizers of keras-hub in exported modules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.saving.resources import resources
from tfnlp.hub.untracked import Untracked

TEXT = tf.TensorSpec([None], "string", name="sentences")
PAIR = [tf.TensorSpec([None], "string", name=name) for name in ("text_a", "text_b")]


def is_of_keras_hub(value: Any) -> bool:
    """Return whether this is a layer of a class of keras-hub, or of one derived from it."""
    return isinstance(value, keras.layers.Layer) and any(
        one.__module__.startswith("keras_hub.") for one in type(value).__mro__
    )


class KerasHubPreprocessor(tf.__internal__.tracking.AutoTrackable):
    """Module that calls a preprocessor of keras-hub on strings `[B]`.

    One that packs several segments, such as `BertTextClassifierPreprocessor`, also takes a list
    `[first, second]` of strings `[B]`. Of `(x, y, sample_weight)`, which the preprocessors of
    language models return, the module returns `x`; those of masked models draw new masks at each
    call.
    """

    def __init__(self, layer: keras.layers.Layer) -> None:
        super().__init__()
        self._layer = Untracked(layer)
        layer(["a"])  # builds what is built at the first call, outside of a graph
        self._resources = [held for _, held in resources(layer)]
        several = type(getattr(layer, "packer", None)).__name__ == "MultiSegmentPacker"
        pair = list(PAIR) if several else None
        self._pair_spec = Untracked(pair)
        for spec in (TEXT, pair):
            if spec is not None:
                self.__call__.get_concrete_function(spec)

    @property
    def pair_spec(self) -> list[tf.TensorSpec] | None:
        """The specs of two segments, or None."""
        return self._pair_spec.value

    @tf.function(autograph=False)
    def __call__(self, inputs: Any) -> Any:
        layer = self._layer.value
        if isinstance(inputs, list | tuple):
            outputs = layer(tuple(inputs), None)  # a lone tuple would be (x, y)
        else:
            outputs = layer(inputs)
        return outputs[0] if isinstance(outputs, tuple) else outputs


@contextlib.contextmanager
def without_word_caches(values: Iterable[Any]) -> Iterator[None]:
    """Make the byte-pair tokenizers in layers forget the words that they encode.

    keras-hub keeps them in a table that grows with each new word: in a server without limit. In
    graphs that are traced inside the context every call encodes its own words, each once.
    """
    tokenizers = {
        id(layer): layer
        for value in values
        if isinstance(value, keras.layers.Layer)
        for layer in value._flatten_layers()
        if hasattr(layer, "_bpe_merge_and_update_cache_tf") and layer.cache is not None
    }
    kept = [(layer, layer.cache) for layer in tokenizers.values()]
    try:
        for layer in tokenizers.values():
            cache = _WordsOfACall(layer.unsplittable_tokens or (), layer)
            layer.cache = cache
            layer._bpe_merge_and_update_cache_tf = cache.encode
        yield
    finally:
        for layer, cache in kept:
            layer.cache = cache
            del layer._bpe_merge_and_update_cache_tf  # that of the class again


class _WordsOfACall:
    """Takes the place of `BytePairTokenizerCache` while a graph is traced.

    `BytePairTokenizer` looks all words up; where it does not find some it encodes them, inserts
    them, and looks all words up again.
    """

    def __init__(self, whole: Iterable[str], layer: keras.layers.Layer) -> None:
        self._whole = tuple(whole)  # tokens that stay in one piece
        self._encode = type(layer)._bpe_merge_and_update_cache_tf
        self._layer = layer
        self._pieces = None  # of the words that the first look-up did not find

    def encode(self, words: tf.Tensor) -> None:
        """Encode each different word once."""
        unique, places = tf.unique(words)
        self._encode(self._layer, unique)
        self._pieces = tf.gather(self._pieces, places)

    def insert(self, words: tf.Tensor, pieces: tf.Tensor) -> None:
        """Keep the pieces of words, joined by spaces, for the next look-up."""
        self._pieces = pieces

    def lookup(self, words: tf.Tensor) -> tf.Tensor:
        """Return the pieces of words; "" for those that are not known yet."""
        found = tf.fill(tf.shape(words), "")
        for token in self._whole:
            found = tf.where(words == token, token, found)
        if self._pieces is not None:
            places = tf.where(found == "")
            found = tf.tensor_scatter_nd_update(found, places, self._pieces)
            self._pieces = None
        return found
