"""Names of the datasets in bilm-tf's weight file, and the weights that each one holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.mapping import Shape


def dataset_rows(config: Mapping[str, Any], softmax: bool) -> dict[str, tuple[str, ...]]:
    """Return a dict of every dataset's name to the paths of the weights that are stacked in it."""
    table = {"char_embed": ("char_cnn/character_embedding",)}
    for i in range(len(config["filters"])):
        table[f"CNN/W_cnn_{i}"] = (f"char_cnn/kernel_{i + 1}",)
        table[f"CNN/b_cnn_{i}"] = (f"char_cnn/bias_{i + 1}",)
    for i in range(config["num_highway"]):
        for gate in ("carry", "transform"):
            table[f"CNN_high_{i}/W_{gate}"] = (f"char_cnn/highway_{i}/{gate}_kernel",)
            table[f"CNN_high_{i}/b_{gate}"] = (f"char_cnn/highway_{i}/{gate}_bias",)
    if sum(number for _, number in config["filters"]) != config["projection_size"]:
        table["CNN_proj/W_proj"] = ("char_cnn/projection_kernel",)
        table["CNN_proj/b_proj"] = ("char_cnn/projection_bias",)
    for number, direction in enumerate(("forward", "backward")):
        for layer in range(config["num_layers"]):
            cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            lstm = f"bilm/{direction}_{layer}"
            table[f"{cell}/W_0"] = (f"{lstm}/kernel", f"{lstm}/recurrent_kernel")
            table[f"{cell}/B"] = (f"{lstm}/bias",)
            table[f"{cell}/W_P_0"] = (f"{lstm}/projection_kernel",)
    if softmax:
        table["softmax/W"], table["softmax/b"] = ("softmax/kernel",), ("softmax/bias",)
    return table


def dataset_shapes(
    rows: Mapping[str, tuple[str, ...]], weight_shapes: Mapping[str, Shape]
) -> dict[str, Shape]:
    """Return a dict of every dataset's name to its shape."""
    shapes = {}
    for name, paths in rows.items():
        (_, *rest), height = weight_shapes[paths[0]], sum(weight_shapes[path][0] for path in paths)
        # The convolutions are of images whose height is 1: [1, W, E, N].
        lead = (1,) if name.startswith("CNN/W_cnn_") else ()
        shapes[name] = (*lead, height, *rest)
    return shapes


def split_datasets(
    rows: Mapping[str, tuple[str, ...]],
    arrays: Mapping[str, np.ndarray],
    weight_shapes: Mapping[str, Shape],
) -> dict[str, np.ndarray]:
    """Return a dict of weight path to array."""
    weights = {}
    for name, paths in rows.items():
        stacked = arrays[name].reshape((-1, *weight_shapes[paths[0]][1:]))
        ends = np.cumsum([weight_shapes[path][0] for path in paths])
        weights.update(zip(paths, np.split(stacked, ends[:-1]), strict=True))
    return weights


def join_weights(
    rows: Mapping[str, tuple[str, ...]], variables: Iterable[keras.Variable]
) -> dict[str, np.ndarray]:
    """Return a dict of every dataset's name to float32 array."""
    variables = {variable.path: variable for variable in variables}
    arrays = {
        name: np.concatenate(
            [keras.ops.convert_to_numpy(variables[path]).astype(np.float32) for path in paths]
        )
        for name, paths in rows.items()
    }
    shapes = dataset_shapes(rows, {path: tuple(v.shape) for path, v in variables.items()})
    return {name: array.reshape(shapes[name]) for name, array in arrays.items()}
