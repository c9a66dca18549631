"""What layers share: configuration, frozen weights, float32 weights, masks, ids, sizes, types."""

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops
from keras.src.backend.common.masking import get_keras_mask

# Names for annotations.
Tensor = Any  # of any Keras backend, or symbolic
Shape = tuple[int | None, ...]
DType = Any  # a Keras dtype policy or its name; None for the global policy
Initializer = Any  # a `keras.Initializer` or its name


class KeepsFrozen(keras.layers.Layer):
    """A layer whose configuration says which of its weights are not trained.

    Keras's own says so of whole layers only. Weights that `variable.trainable = False` froze stay
    frozen in a layer that is made from the configuration, as files and clones are.
    """

    _frozen: Sequence[str] = ()  # of a layer that is not built yet

    def get_config(self) -> dict[str, Any]:
        frozen = self._frozen
        if self.built:
            frozen = [name for name, w in self._made_trainable().items() if not w.trainable]
        return {**super().get_config(), **({"frozen": list(frozen)} if frozen else {})}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> keras.layers.Layer:
        layer = super().from_config({k: v for k, v in config.items() if k != "frozen"})
        if "frozen" in config:
            layer._freeze_when_built(config["frozen"])
        return layer

    def _freeze_when_built(self, names: Sequence[str]) -> None:
        self._frozen, build = tuple(names), self.build

        @functools.wraps(build)
        def build_frozen(*shapes: Shape, **named: Shape) -> None:
            build(*shapes, **named)
            for name, weight in self._made_trainable().items():
                weight.trainable = weight.trainable and name not in names

        self.build = build_frozen

    def _made_trainable(self) -> dict[str, keras.Variable]:
        """Return the weights of this layer and those in it that were trained at first, by name."""
        weights = [w for layer in self._flatten_layers() for w in layer._trainable_variables]
        return {w.path.removeprefix(f"{self.path}/"): w for w in weights}


class Layer(KeepsFrozen):
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

    def compute_output_shape(self, *shapes: Shape, **named: Shape) -> Any:
        """Return the shapes of what `compute_output_spec` promises.

        Shapes are those of the arguments of a call, the first one by position or any name, the
        others as `NAME_shape`.
        """

        def spec(shape: Shape) -> keras.KerasTensor:
            return keras.KerasTensor(shape, dtype=self.compute_dtype)

        given = [keras.tree.map_shape_structure(spec, shape) for shape in shapes]
        others = {
            name.removesuffix("_shape"): keras.tree.map_shape_structure(spec, shape)
            for name, shape in named.items()
        }
        given = given or [others.pop(next(iter(others)))]
        outputs = self.compute_output_spec(*given, **others)
        return keras.tree.map_structure(lambda output: tuple(output.shape), outputs)

    def compute_output_spec(self, inputs: Tensor, *_: Any, **others: Any) -> Any:
        """Return what a call promises: here the shape of the inputs, in the compute dtype."""
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)

    def float32_weight(
        self, name: str, shape: Shape, initializer: Initializer = "zeros", **options: Any
    ) -> keras.Variable:
        """Add a weight that is float32, and is read as float32, under any dtype policy."""
        options = {"dtype": "float32", "autocast": False, **options}
        return self.add_weight(name=name, shape=shape, initializer=initializer, **options)

    def add_table(self, rows: int, columns: int, initializer: Initializer) -> keras.Variable:
        """Add the table of an embedding.

        It is not autocast: to cast the rows that are looked up is cheaper than to cast the table.
        """
        shape = (rows, columns)
        return self.add_weight(
            name="embeddings", shape=shape, initializer=initializer, autocast=False
        )


class MaskEnds(Layer):
    """A layer whose outputs have no mask."""

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        return None


def fitting(mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Return the mask of the keys of an attention if it is one of its queries x, too, or None."""
    return None if mask is None or mask.shape[1] != x.shape[1] else mask


def carried(mask: Any, x: Tensor | Sequence[Tensor]) -> Tensor | None:
    """Return a mask that was given, or else the one that a tensor carries, or None.

    Keras fills in the argument `mask` of a call itself only where there is one tensor.

    Args:
        mask: bool, None, or one for each of several tensors.
        x: what it is the mask of; of several tensors the first that carries one counts.
    """
    masks = keras.tree.flatten(mask)
    if all(mask is None for mask in masks):
        masks = [get_keras_mask(y) for y in keras.tree.flatten(x)]
    return next((mask for mask in masks if mask is not None), None)


def as_ids(x: Tensor) -> Tensor:
    """Return ids as int32 if they are floats, as Keras's own embeddings do.

    Keras rebuilds a subclassed model from a file by calling it on floats.
    """
    return ops.cast(x, "int32") if keras.backend.is_float_dtype(x.dtype) else x


def check_positive(**sizes: int | None) -> None:
    """Raise a ValueError that names the first size below 1; None is a size that is not given."""
    for argument, value in sizes.items():
        if value is not None and value < 1:
            raise ValueError(f"{argument}={value} must be at least 1")
