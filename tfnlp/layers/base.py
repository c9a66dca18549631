"""What layers share: their configuration, weights in float32, masks, the check of their sizes."""

import inspect
from typing import Any

import keras

from tfnlp.layers.types import Initializer, Shape, Tensor


class Layer(keras.layers.Layer):
    """A layer that keeps the arguments of its constructor as attributes of the same names."""

    def get_config(self) -> dict[str, Any]:
        """Return all arguments of the constructor, as JSON has them."""
        own = inspect.signature(type(self).__init__).parameters
        of_keras = inspect.signature(keras.layers.Layer.__init__).parameters
        values = {name: getattr(self, name) for name in own if name not in of_keras}
        for name, value in values.items():
            if callable(value):
                values[name] = keras.initializers.serialize(value)
        return {**super().get_config(), **values}

    def float32_weight(
        self, name: str, shape: Shape, initializer: Initializer = "zeros", **options: Any
    ) -> keras.Variable:
        """Add a weight that is float32, and is read as float32, under any dtype policy."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=initializer,
            dtype="float32",
            autocast=False,
            **options,
        )


class MaskEnds(Layer):
    """A layer whose outputs have no mask: callers pass masks to every layer themselves."""

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        return None


def check_positive(**sizes: int | None) -> None:
    """Raise a ValueError that names the first size below 1; None is a size that is not given."""
    for argument, value in sizes.items():
        if value is not None and value < 1:
            raise ValueError(f"{argument}={value} must be at least 1")
