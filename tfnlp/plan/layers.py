"""Which layer an operation belongs to, by the operation's name."""

import re


def layer_of(place, model):
    """`layer_3/attention (MultiHeadAttention)` for `bert_1/layer_3_1/attention_1/Softmax`, or None.

    Keras opens a name scope for each call of a layer, to which TensorFlow adds `_1`, `_2`, ... if
    it has been there before; the gradient's operations carry the names of those they belong to.

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


def _children(layer):
    return layer._flatten_layers(include_self=False, recursive=False)


def _is(part, name):
    return part == name or re.fullmatch(rf"{re.escape(name)}_\d+", part)
