"""Preprocessors before exported models, those of keras-hub among them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.loading.traces import described
from tfnlp.hub.saving.keras_module import KerasModule, resources, serving
from tfnlp.hub.traced import Traced, Untracked

PAIRS = "serving_pairs"  # the signature of two segments
_SENTENCES = tf.TensorSpec([None], "string", name="sentences")
_PAIR = [tf.TensorSpec([None], "string", name=name) for name in ("text_a", "text_b")]


class TextModule(Traced):
    """Module that computes `encoder(preprocessor(strings), training)`.

    Its attributes `preprocessor` and `encoder` are the two modules. Only the encoder is trained.
    """

    def __init__(self, adapter: PreprocessorAdapter, encoder: KerasModule) -> None:
        super().__init__()
        self.preprocessor, self.encoder = adapter.module, encoder
        self._adapter = Untracked(adapter)
        listed = {id(v) for v in encoder.variables}
        others = getattr(adapter.module, "variables", None) or ()
        self.variables = [*encoder.variables, *(v for v in others if id(v) not in listed)]
        self.trainable_variables = list(encoder.trainable_variables)
        self.regularization_losses = list(encoder.regularization_losses)
        for spec in (adapter.input_spec, adapter.pair_spec):
            for training in (False, True):
                if spec is not None:
                    self.__call__.get_concrete_function(spec, training=training)

    @tf.function(autograph=False)
    def __call__(self, inputs: Any, training: bool = False) -> Any:
        features = self._adapter.value.fitted(self.preprocessor(inputs))
        return self.encoder(features, training=training)

    def signature(self, names: Collection[str] | None = None, pairs: bool = False) -> Callable:
        """Return strings, or `pairs` of strings, to outputs: see `KerasModule.signature`."""
        adapter, outputs = self._adapter.value, self.encoder.outputs()
        spec = adapter.pair_spec if pairs else adapter.input_spec
        return serving(self.__call__, spec, outputs, names)


class PreprocessorAdapter:
    """A preprocessor whose outputs are converted to the inputs of a model.

    The outputs are matched by name if the model takes a dict, by position if it takes a list.
    Integers and floats are cast to the model's widths, booleans and integers to each other, and
    outputs that the model does not take are dropped. `spec` are the `tf.TensorSpec`s of the model.

    Attributes:
        module: the preprocessor as a trackable object.
        input_spec: the specs of its inputs.
        pair_spec: the specs of two segments for a preprocessor that takes these too; else None.
        specs: the inputs of the model, with the shapes of the preprocessor's outputs.
    """

    def __init__(self, preprocessor: Any, spec: Any) -> None:
        if any(x.__module__.startswith("keras_hub.") for x in type(preprocessor).__mro__):
            preprocessor = KerasHubPreprocessor(preprocessor)
        elif isinstance(preprocessor, keras.layers.Layer):
            if not hasattr(preprocessor, "inputs"):
                text = keras.Input((), dtype="string", name="sentences")
                preprocessor = keras.Model(text, preprocessor(text))
            preprocessor = KerasModule(preprocessor)
        traced = callable(preprocessor) and hasattr(preprocessor.__call__, "get_concrete_function")
        if not traced:
            raise ValueError(
                "preprocessor must be a Keras model or layer, or a trackable object whose "
                f"__call__ is a tf.function, not {type(preprocessor).__name__}"
            )
        self.module, self._spec = preprocessor, spec
        self.input_spec = _input_spec(preprocessor)
        self.pair_spec = getattr(preprocessor, "pair_spec", None)
        trace = tf.function(lambda x: preprocessor(x), autograph=False).get_concrete_function(
            self.input_spec
        )
        self.specs = tf.nest.map_structure(_fitted, spec, self._chosen(trace.structured_outputs))

    def fitted(self, outputs: Any) -> Any:
        """Convert the preprocessor's outputs to the model's inputs."""
        return tf.nest.map_structure(
            lambda spec, x: tf.cast(x, spec.dtype), self._spec, self._chosen(outputs)
        )

    def signatures(self) -> dict[str, Callable]:
        """Return the concrete functions of named strings to the named inputs of the model."""

        def call(inputs: Any, training: bool) -> Any:
            return self.fitted(self.module(inputs))

        specs = {"serving_default": self.input_spec, PAIRS: self.pair_spec}
        return {n: serving(call, x, self._spec) for n, x in specs.items() if x is not None}

    def _chosen(self, outputs: Any) -> Any:
        spec = self._spec
        if isinstance(spec, dict):
            if not isinstance(outputs, dict) and len(spec) == 1:
                outputs = dict.fromkeys(spec, outputs)
            if isinstance(outputs, dict) and set(spec) <= set(outputs):
                return {name: outputs[name] for name in spec}
        elif isinstance(outputs, dict) and isinstance(spec, tf.TensorSpec):
            if len(outputs) == 1 or spec.name in outputs:
                return outputs.get(spec.name, next(iter(outputs.values())))
        elif isinstance(outputs, list | tuple) and isinstance(spec, list | tuple):
            outputs = type(spec)(outputs)
        try:
            tf.nest.assert_same_structure(spec, outputs, check_types=False)
        except (TypeError, ValueError):
            raise ValueError(
                "preprocessor returns another structure of tensors than the model takes: "
                f"{described(outputs)}, expected {described(spec)}"
            ) from None
        return outputs


def _fitted(spec: tf.TensorSpec, x: Any) -> tf.TensorSpec:
    """Return the spec of a model's input with the shape of a preprocessor's output."""
    dense = isinstance(x, tf.Tensor | tf.TensorSpec)
    alike = dense and _kind(x.dtype) == _kind(spec.dtype)
    if not alike or not x.shape.is_compatible_with(spec.shape):
        raise ValueError(
            f"preprocessor returns {described(x)} for {spec.name}, but the model takes "
            f"{described(spec)}"
        )
    return tf.TensorSpec(x.shape, spec.dtype, spec.name)


def _kind(dtype: tf.DType) -> str:
    """Return what a dtype can be cast within: masks are booleans or integers."""
    if dtype.is_integer or dtype.is_bool:
        return "integer"
    return "floating" if dtype.is_floating else dtype.name


def _input_spec(module: Any) -> Any:
    if isinstance(module, KerasModule):
        return module.input_spec()
    for function in getattr(module.__call__, "concrete_functions", ()):  # of a loaded module
        (inputs, *_), _ = function.structured_input_signature
        flat = tf.nest.flatten(inputs)
        if flat and all(isinstance(x, tf.TensorSpec) and x.dtype == tf.string for x in flat):
            if isinstance(inputs, tf.TensorSpec):
                return tf.TensorSpec(inputs.shape, inputs.dtype, "sentences")
            return inputs
    return _SENTENCES


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
        pair = list(_PAIR) if several else None
        self._pair_spec = Untracked(pair)
        for spec in (_SENTENCES, pair):
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
    """Stands for `BytePairTokenizerCache` while a graph is traced.

    `BytePairTokenizer` looks words up, encodes and inserts those that it did not find, and looks
    all up again.
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
