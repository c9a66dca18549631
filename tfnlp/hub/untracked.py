"""Wrapper that keeps a Python object out of a SavedModel's object graph."""

from typing import Any


class Untracked:
    """Holder of an object that TensorFlow must not track: `Untracked(x).value` is `x`.

    TensorFlow saves each trackable object that it reaches from a module's attributes. It does not
    look into this class, so a Keras model in it is not saved.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
