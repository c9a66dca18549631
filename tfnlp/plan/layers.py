"""The layer that an operation belongs to, from the operation's name."""

import re

import keras


def layer_of(place: str, model: keras.Model) -> str | None:
    """Return the layer of an operation, or None if it belongs to none.

    For `bert_1/layer_3_1/attention_1/Softmax` it is `layer_3/attention (MultiHeadAttention)`.
    Keras opens a name scope for each call of a layer, to which TensorFlow adds `_1`, `_2`, ... if
    the name is in use; operations of the gradient have the names of those they belong to.

    Args:
        place: name of an operation; of several joined by `;`, the last.
        model: a Keras model.
    """
    path, layer = [], model
    for part in place.split(";")[-1].split("/"):
        child = next((c for c in _children(layer) if _is(part, c.name)), None)
        if child is not None:
            path.append(child.name)
            layer = child
    return f"{'/'.join(path)} ({type(layer).__name__})" if path else None


def _children(layer: keras.Layer) -> list[keras.Layer]:
    return list(layer._flatten_layers(include_self=False, recursive=False))


def _is(part: str, name: str) -> bool:
    return re.fullmatch(rf"{re.escape(name)}(_\d+)?", part) is not None
