"""The SavedModels in a folder, and messages about files of other formats."""

import os

from tfnlp.hub.loading.checks import GRAPHS, is_saved_model
from tfnlp.hub.loading.resolve import ARCHIVES, resolve

PAIR = ("encoder", "model", "preprocessor")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_KERAS = (
    "a Keras model or its weights: load it with keras.saving.load_model and write a SavedModel "
    "with model.export"
)
_WEIGHTS = "weights without a graph; `tfnlp export` converts known checkpoints to a SavedModel"
_GRAPH = "a graph for another runtime: inspect the SavedModel that it was made from"
_OTHERS = {
    **dict.fromkeys((".keras", ".h5", ".hdf5"), _KERAS),
    **dict.fromkeys((".index", ".ckpt", ".safetensors", ".bin", ".pt", ".pth"), _WEIGHTS),
    **dict.fromkeys((".tflite", ".onnx"), _GRAPH),
}


def saved_models(handle: str | os.PathLike) -> list[str]:
    """Return the folders of the SavedModels that `handle` names.

    These are: in a folder that `tfnlp export` wrote, the encoder or model, then the preprocessor;
    in a folder of numbered versions, the last one; otherwise the one that
    `tfnlp.hub.loading.resolve` returns.
    """
    path = os.path.expanduser(os.fsdecode(handle)) if isinstance(handle, str | os.PathLike) else ""
    if os.path.isdir(path) and not is_saved_model(path):
        names = [name for name in PAIR if is_saved_model(os.path.join(path, name))]
        if not names:
            versions = [name for name in os.listdir(path) if name.isascii() and name.isdecimal()]
            versions = [name for name in versions if is_saved_model(os.path.join(path, name))]
            names = [max(versions, key=int)] if versions else []
        if names:
            return [os.path.abspath(os.path.join(path, name)) for name in names]
    other = _other_format(path)
    if other:
        raise ValueError(f"{handle} is not a SavedModel: {other}")
    return [resolve(handle)]


def _other_format(path: str) -> str | None:
    """Describe what is at `path` instead of a SavedModel, and what to do; None if unknown."""
    if os.path.isdir(path):
        if is_saved_model(path):
            return None
        files = sorted(os.listdir(path))
        if "checkpoints" in files and "config.json" in files:
            return "it is a run folder; write a SavedModel with `tfnlp export`"
        kinds = [(name, _OTHERS.get(os.path.splitext(name)[1].lower())) for name in files]
        return next((f"it holds {name}, {kind}" for name, kind in kinds if kind), None)
    if not os.path.isfile(path) or path.lower().endswith(ARCHIVES):
        return None
    folder, name = os.path.split(path)
    if name in GRAPHS:
        return f"it is the graph file of one; give its folder, {folder or '.'}"
    with open(path, "rb") as file:
        ending = ".h5" if file.read(8) == _HDF5 else os.path.splitext(name)[1].lower()
    if ".data-" in ending or name == "checkpoint":
        ending = ".index"
    return f"it is {_OTHERS[ending]}" if ending in _OTHERS else None
