"""Gradients of a loaded function's variables as dense tensors."""

import contextlib
import contextvars

import tensorflow as tf

_as_loaded = contextvars.ContextVar("as_loaded", default=False)


@contextlib.contextmanager
def gradients_as_loaded():
    """While open, `with_dense_gradients` adds nothing: for a graph that is to be saved, as what
    `tf.custom_gradient` adds does not come back with the variables."""
    token = _as_loaded.set(True)
    try:
        yield
    finally:
        _as_loaded.reset(token)


def with_dense_gradients(function, inputs, **arguments):
    """`function(inputs, **arguments)`, whose variables get dense gradients.

    The gradient of a table that rows were taken from is a `tf.IndexedSlices`, in which a row that
    was taken twice stands twice. Keras 3's Adam, AdamW, Adagrad and RMSprop, and its clipping,
    square such parts one by one, and so make other steps than with their sum, which those of
    Keras 2 take.

    Args:
        function: takes a nest of tensors, and returns one.
        inputs: the nest.
        **arguments: passed on.
    """
    if _as_loaded.get():
        return function(inputs, **arguments)
    flat = tf.nest.flatten(inputs, expand_composites=True)
    places = [i for i, x in enumerate(flat) if x.dtype.is_floating]
    found = []  # the nest of outputs

    @tf.custom_gradient
    def run(*floats):
        parts = dict(enumerate(flat)) | dict(zip(places, floats, strict=True))
        nest = tf.nest.pack_sequence_as(inputs, list(parts.values()), expand_composites=True)
        eager = tf.executing_eagerly()
        # A second tape in a graph would make it prepare for second derivatives.
        with tf.GradientTape() if eager else contextlib.nullcontext() as tape:
            if eager:
                tape.watch(floats)
            found.append(function(nest, **arguments))
        outputs = tf.nest.flatten(found[0], expand_composites=True)

        def backward(*upstream, variables=()):
            sources = [*floats, *variables]
            real = [i for i, x in enumerate(outputs) if x.dtype.is_floating]
            gradient = tape.gradient if eager else tf.gradients
            gradients = gradient([outputs[i] for i in real], sources, [upstream[i] for i in real])
            gradients = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
            return gradients[: len(floats)], gradients[len(floats) :]

        return outputs, backward

    outputs = run(*(flat[i] for i in places))
    return tf.nest.pack_sequence_as(found[0], outputs, expand_composites=True)
