"""What the objects share that are written as SavedModels."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfnlp.training.randomness import SEED_NAME


class Untracked:
    """Holder of an object that TensorFlow must not track: `Untracked(x).value` is `x`.

    TensorFlow saves each trackable object that it reaches from a module's attributes. It does not
    look into this class, so a Keras model in it is not saved.
    """

    def __init__(self, value: Any) -> None:
        self.value = value


class Traced(tf.__internal__.tracking.AutoTrackable):
    """Object with the lists of TF-Hub's modules, at first those of a Keras model or empty.

    They are attributes that hold plain `tf.Variable`s: properties, which a `tf.Module` has, and
    Keras objects are not saved.
    """

    def __init__(self, model: keras.Model | None = None) -> None:
        super().__init__()
        self.variables, self.trainable_variables = [], []
        self.regularization_losses = []
        if model is not None:
            self.variables = [v.value for v in without_seeds(model)]
            self.trainable_variables = [v.value for v in model.trainable_variables]


def without_seeds(model: keras.Model) -> list[keras.Variable]:
    """Return the variables of a model without the seeds of its random layers."""
    return [v for v in model.variables if v.name != SEED_NAME]


def other_vocabulary(tokens: int, rows: int) -> ValueError:
    """Return the error of a vocabulary that is not that of a model with a table of `rows`."""
    return ValueError(
        f"vocabulary of {tokens} tokens, but the model has {rows}; give the vocabulary that the "
        "model was trained with"
    )


def named(function: Callable, **specs: Any) -> Callable:
    """Return a function of named tensors as a concrete function, for a signature."""
    return tf.function(function, autograph=False).get_concrete_function(**specs)
