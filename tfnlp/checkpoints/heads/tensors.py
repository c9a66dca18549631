"""The tensors of a head as the weights of a task's model, and back."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import numpy as np

from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.heads.files import SPAN, TaskHead
from tfnlp.checkpoints.mapping import check_tensors
from tfnlp.tasks.task import Task
from tfnlp.text.lines import shown

Arrays = dict[str, np.ndarray]


def outputs_of(tensors: Tensors, names: Mapping[str, str], head: TaskHead) -> int:
    """Return the number of the head's outputs: the rows of its last matrix."""
    last = list(head.dense.values())[-1]
    name = f"{last}.weight"
    shape = tensors.shapes[names[name]] if name in names else ()
    if len(shape) != 2 or not shape[0]:
        raise ValueError(f"{tensors.path} holds no matrix {shown(name)}, the head's")
    return shape[0]


def read_head(
    tensors: Tensors,
    names: Mapping[str, str],
    head: TaskHead,
    size: int,
    width: int,
) -> Arrays:
    """Return the weights of a head by their paths.

    `names` are those of `table_names`, `size` is the number of outputs, `width` the encoder's.
    """
    expected = {}
    for layer, name in head.dense.items():
        rows = width if layer == "hidden" else head.size or size
        expected[f"{name}.weight"] = (rows, width)
        if head.biased:
            expected[f"{name}.bias"] = (rows,)
    held = {name: original for name, original in names.items() if name in expected}
    check_tensors(tensors, held, expected, f"the head of {head.architecture}")
    arrays = {name: tensors[held[name]] for name in expected}
    if SPAN in head.dense:
        kernel = arrays[f"{SPAN}.weight"]
        return {"start/kernel": kernel[:1].T, "end/kernel": kernel[1:].T}
    weights = {}
    for layer, name in head.dense.items():
        weights[f"{layer}/kernel"] = arrays[f"{name}.weight"].T
        if layer == "hidden" or head.size is None:
            zeros = np.zeros(arrays[f"{name}.weight"].shape[0], np.float32)
            weights[f"{layer}/bias"] = arrays.get(f"{name}.bias", zeros)
    return weights


def written_head(model: keras.Model, head: TaskHead, task: Task) -> Arrays:
    """Return the tensors of a head by their names; of a regression scaled to tfnlp's scores."""
    weights = {w.path: np.asarray(w.numpy(), np.float32) for w in model.weights}
    if SPAN in head.dense:
        kernel = np.concatenate([weights["start/kernel"], weights["end/kernel"]], axis=1)
        kernel = np.ascontiguousarray(kernel.T)
        return {f"{SPAN}.weight": kernel, f"{SPAN}.bias": np.zeros(2, np.float32)}
    arrays = {}
    for layer, name in head.dense.items():
        kernel = weights[f"{layer}/kernel"]
        bias = weights.get(f"{layer}/bias", np.zeros(kernel.shape[1], np.float32))
        if layer == "classifier":
            kernel, bias = kernel * task.deviation, bias * task.deviation + task.mean
        arrays[f"{name}.weight"] = np.ascontiguousarray(kernel.T, np.float32)
        arrays[f"{name}.bias"] = np.ascontiguousarray(bias, np.float32)
    return arrays


def assign_head(model: keras.Model, weights: Mapping[str, np.ndarray]) -> None:
    """Set the weights of a task's head from a dict of path to array."""
    variables = {variable.path: variable for variable in model.weights}
    for path, array in weights.items():
        variables[path].assign(array)
