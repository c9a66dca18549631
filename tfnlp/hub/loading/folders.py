"""The SavedModels in a folder."""

import os

from tfnlp.hub.loading.checks import is_saved_model
from tfnlp.hub.loading.resolve import resolve

PAIR = ("encoder", "model", "preprocessor")


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
        if {"checkpoints", "config.json"} <= set(os.listdir(path)):
            raise ValueError(
                f"{handle} is not a SavedModel but a run; write one with `tfnlp export`"
            )
    return [resolve(handle)]
