"""Names for annotations of the layers and models."""

from typing import Any

Tensor = Any  # of any Keras backend, or symbolic
Shape = tuple[int | None, ...]
DType = Any  # a Keras dtype policy or its name; None for the global policy
Initializer = Any  # a `keras.Initializer` or its name
