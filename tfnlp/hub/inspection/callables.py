"""Functions, traces and variables of a SavedModel, as `inspect` lists them."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class Call:
    """One trace of a function: nests of `tf.TypeSpec`s and of Python values.

    `names` are the parameters that can be given by position.
    """

    args: tuple
    kwargs: dict[str, Any]
    names: tuple[str, ...]
    defaults: dict[str, Any]
    outputs: Any

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments by name; those of `*args` are named `*0`, `*1`, ..."""
        more = len(self.args) - len(self.names)
        names = [*self.names[: len(self.args)], *(f"*{i}" for i in range(more))]
        return {**dict(zip(names, self.args, strict=True)), **self.kwargs}


@dataclass(frozen=True)
class Function:
    """A function of a SavedModel, or a signature, which takes tensors by name."""

    name: str  # `mlm`, `tokenize.get_tokens`, ...; "" for the module itself
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Variable:
    """A variable: its name, shape, dtype, and whether it can be trained."""

    name: str
    shape: tf.TensorShape
    dtype: tf.DType
    trainable: bool

    @property
    def parameters(self) -> int:
        """Number of elements; 0 if the shape is not known."""
        return self.shape.num_elements() or 0
