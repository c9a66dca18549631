"""What there is to call in a SavedModel, and to train."""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Call:
    """One trace of a function: what it takes and what it returns.

    Attributes:
        args, kwargs: nests of `tf.TypeSpec`s and of Python values.
        names: of the parameters that can be given by position.
        defaults: dict of parameter to its default.
        outputs: nest of `tf.TypeSpec`s.
    """

    args: tuple
    kwargs: dict
    names: tuple
    defaults: dict
    outputs: object

    @property
    def arguments(self):
        """All arguments by name; those of `*args` are called `*0`, `*1`, ..."""
        more = len(self.args) - len(self.names)
        names = [*self.names[: len(self.args)], *(f"*{i}" for i in range(more))]
        return {**dict(zip(names, self.args, strict=True)), **self.kwargs}


@dataclass(frozen=True)
class Function:
    """Something to call: the module itself (`name` ""), `mlm`, `tokenize.get_tokens`, ...; or a
    signature, which takes tensors by name."""

    name: str
    calls: tuple


@dataclass(frozen=True)
class Variable:
    """A variable: its name, shape (`tf.TensorShape`), dtype, and whether it may be trained."""

    name: str
    shape: tf.TensorShape
    dtype: tf.DType
    trainable: bool

    @property
    def parameters(self):
        """How many numbers it holds; 0 if the shape is not known."""
        return self.shape.num_elements() or 0
