"""Low-rank updates of a whole model (LoRA), and the choice of the weights that are trained."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import keras

from tfnlp.layers import LowRank, TransformerBlock
from tfnlp.layers.base import KeepsFrozen
from tfnlp.layers.dense import BuiltDense


def low_rank_blocks(model: keras.Model) -> list[TransformerBlock]:
    """Return the Transformer blocks of a model and of the models in it, each once."""
    layers = model._flatten_layers(include_self=False)
    return [layer for layer in layers if isinstance(layer, TransformerBlock)]


def add_low_rank(model: keras.Model, low_rank: LowRank) -> int:
    """Add low-rank updates to the Transformer blocks of a model, and train nothing else of it.

    `W' = W + (alpha / r) A B` for each matrix W that the settings name (Hu et al. 2022, section
    4.1): see `LowRankUpdate`. The model is changed in place; its outputs stay the same, as B is
    zero at first. Layers that are put on the model later are trained as usual. In copies of the
    model, from its file or by `clone_model`, the same weights are trained.

    Args:
        model: of blocks of `tfnlp.layers.TransformerBlock`, such as `bert` or `gpt` make.
        low_rank: rank, matrices, alpha and dropout.

    Returns:
        the number of weights that are now trained.

    Raises:
        ValueError: for a model without such blocks, or one that has updates already.
    """
    blocks = low_rank_blocks(model)
    if not blocks:
        raise ValueError(
            f"{model.name} has no TransformerBlock, whose matrices low-rank updates are added to"
        )
    for block in blocks:
        block.add_low_rank(low_rank)
    of_updates = {id(v) for _, dense, _ in low_rank_updates(model) for v in dense.update.variables}
    return _train_only(model, lambda variable: id(variable) in of_updates)


def merge_low_rank(model: keras.Model) -> keras.Model:
    """Add all low-rank updates to the kernels that they belong to, and remove them.

    The outputs stay the same but for rounding. All weights of a model that had updates are trained
    again afterwards.

    Args:
        model: changed in place.

    Returns:
        the model.
    """
    blocks = [block for block in low_rank_blocks(model) if block.low_rank is not None]
    for block in blocks:
        block.merge_low_rank()
    if blocks:
        train_everything(model)
    return model


def train_everything(model: keras.Model) -> None:
    """Train all weights of a model again."""
    # In TensorFlow Keras skips what has the value already, layers inside included.
    model.trainable = False
    model.trainable = True
    for variable in model.variables:
        if keras.backend.is_float_dtype(variable.dtype):
            variable.trainable = True


def low_rank_updates(model: keras.Model) -> list[tuple[str, BuiltDense, tuple[str, ...]]]:
    """Return the dense layers of a model that have updates.

    Returns:
        a list of (path of the layer, such as "layer_0/attention/qkv"; the layer; the names of the
        matrices whose outputs stand side by side).
    """
    return [
        (dense.kernel.path.removesuffix("/kernel"), dense, names)
        for block in low_rank_blocks(model)
        for dense, names in block.projections()
        if dense.update is not None
    ]


def train_weights(model: keras.Model, pattern: str) -> int:
    """Train those weights of a model alone in whose path a pattern is found.

    `"/(bias|beta)$"` is BitFit (Ben Zaken et al. 2022). A weight that is not trained now stays so.
    In copies of the model, from its file or by `clone_model`, the same weights are trained; of
    Keras's own layers, which tfnlp's models have in their heads, all or none.

    Args:
        model: changed in place.
        pattern: regular expression, searched for in paths such as "layer_0/attention/qkv/bias" or
            "token_embedding/embeddings".

    Returns:
        the number of weights that are trained.

    Raises:
        ValueError: for a pattern that is no regular expression or is found in no path.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    variables = model.trainable_variables
    if not any(compiled.search(v.path) for v in variables):
        some = ", ".join(v.path for v in variables[:3])
        raise ValueError(f"{pattern!r} is found in no weight; there are {some}, ...")
    return _train_only(model, lambda variable: compiled.search(variable.path) is not None)


def _train_only(model: keras.Model, chosen: Callable[[keras.Variable], bool]) -> int:
    """Freeze the weights that are not chosen; return the number of those that are trained."""
    for variable in model.trainable_variables:
        variable.trainable = chosen(variable)
    for layer in _layers_of(model):
        # In files of Keras its own layers say whether they are frozen, not which weights are.
        frozen = layer.weights and not layer.trainable_weights
        if frozen and not isinstance(layer, KeepsFrozen):
            layer.trainable = False
    return count_trained(model)


def _layers_of(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """Return the layers of a model and of the models in it."""
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _layers_of(layer)
        else:
            yield layer


def count_trained(model: keras.Model) -> int:
    """Return the number of weights of a model that are trained."""
    return sum(int(keras.ops.size(v)) for v in model.trainable_variables)
