"""Dense gradients for the variables of a loaded function."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_as_loaded = contextvars.ContextVar("as_loaded", default=False)


@contextlib.contextmanager
def gradients_as_loaded() -> Iterator[None]:
    """Switch `with_dense_gradients` off inside the context, to trace a graph for saving.

    A saved `tf.custom_gradient` does not restore the gradients of variables.
    """
    token = _as_loaded.set(True)
    try:
        yield
    finally:
        _as_loaded.reset(token)


def with_dense_gradients(function: Callable, inputs: Any, **arguments: Any) -> Any:
    """Return `function(inputs, **arguments)`, with dense gradients for its variables.

    The gradient of an embedding table is a `tf.IndexedSlices`; a row that was looked up twice
    appears in it twice. Keras 3's Adam, AdamW, Adagrad and RMSprop, and its clipping, square the
    two parts separately. The optimizers of Keras 2 square their sum, as a dense gradient gives it.
    """
    if _as_loaded.get():
        return function(inputs, **arguments)
    flat = tf.nest.flatten(inputs, expand_composites=True)
    places = [i for i, x in enumerate(flat) if x.dtype.is_floating]
    found = []  # the nest of outputs

    @tf.custom_gradient
    def run(*floats: tf.Tensor) -> tuple:
        parts = dict(enumerate(flat)) | dict(zip(places, floats, strict=True))
        nest = tf.nest.pack_sequence_as(inputs, list(parts.values()), expand_composites=True)
        eager = tf.executing_eagerly()
        # In a graph, a second tape would record operations for second derivatives.
        with tf.GradientTape() if eager else contextlib.nullcontext() as tape:
            if eager:
                tape.watch(floats)
            found.append(function(nest, **arguments))
        outputs = tf.nest.flatten(found[0], expand_composites=True)

        def backward(*upstream: tf.Tensor, variables: tuple = ()) -> tuple:
            sources = [*floats, *variables]
            real = [i for i, x in enumerate(outputs) if x.dtype.is_floating]
            gradient = tape.gradient if eager else tf.gradients
            gradients = gradient([outputs[i] for i in real], sources, [upstream[i] for i in real])
            gradients = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
            return gradients[: len(floats)], gradients[len(floats) :]

        return outputs, backward

    outputs = run(*(flat[i] for i in places))
    return tf.nest.pack_sequence_as(found[0], outputs, expand_composites=True)
