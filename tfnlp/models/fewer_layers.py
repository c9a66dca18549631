"""A smaller encoder that is made of some layers of another one."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

_LAYER = "layer_"  # the start of the names of Transformer blocks, which end with their numbers


def with_layers(
    build: Callable[..., keras.Model],
    encoder: keras.Model,
    config: dict[str, Any],
    layers: Sequence[int],
) -> tuple[keras.Model, dict[str, Any]]:
    """Return a copy of an encoder that has only some of its Transformer blocks.

    Layer i of the copy starts from layer `layers[i]`, and all that is no layer from its like, as
    DistilBERT starts from every second layer of BERT (Sanh et al. 2019, section 3).

    Args:
        build: the function that made the encoder, such as `bert`, called with keywords.
        encoder: a model made by `build(**config)`, whose blocks have names such as "layer_0".
        config: dict of the arguments that made it, `num_layers` among them.
        layers: numbers of the layers to keep, from 0 on, in rising order.

    Returns:
        `(the copy, the arguments that make it again)`; `encoder` is not changed.

    Raises:
        ValueError: for layers that the encoder does not have, in another order, or none; or an
            encoder without layers of their own.
    """
    found = {variable.path: variable for variable in encoder.weights}
    count = config.get("num_layers")
    if not count or not any(path.startswith(_LAYER) for path in found):
        raise ValueError(f"{encoder.name} has no layers of their own to choose from")
    layers = list(layers)
    if not layers or layers != sorted({*layers}) or layers[0] < 0 or layers[-1] >= count:
        raise ValueError(
            f"layers={layers} must be some of 0 to {count - 1} in rising order, each once"
        )
    arguments = {**config, "num_layers": len(layers)}
    model = build(**arguments)
    for variable in model.weights:
        layer, _, rest = variable.path.partition("/")
        if layer.startswith(_LAYER):
            layer = f"{_LAYER}{layers[int(layer.removeprefix(_LAYER))]}"
        variable.assign(found[f"{layer}/{rest}"])
    return model, arguments
