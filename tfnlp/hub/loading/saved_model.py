"""Loading a SavedModel from its folder, archive or URL."""

import os
import re
from typing import Any

import tensorflow as tf

from tfnlp.hub.loading.checks import check_record, check_saved_model
from tfnlp.hub.loading.resolve import resolve

_TF1_FORMAT = "tfhub_module.pb"  # beside the graph of a module of TF-Hub's first format


def load_module(
    handle: str | os.PathLike,
    tags: str | list[str] | None = None,
    options: tf.saved_model.LoadOptions | None = None,
) -> Any:
    """Return what `tf.saved_model.load` returns, in the scope of the current strategy.

    A module of TF-Hub's first format has the attribute `is_tf1_hub_module`, which is True.

    Args:
        handle: see `tfnlp.hub.loading.resolve`.
        tags: of the graph to load; None: the only one.
        options: a `tf.saved_model.LoadOptions`, or None.

    Raises:
        FileNotFoundError: if there is no SavedModel.
        ValueError: if it can't be read.
        OSError: if it can't be downloaded.
    """
    path = resolve(handle)
    check_saved_model(path)
    check_record(path)
    old_format = os.path.isfile(os.path.join(path, _TF1_FORMAT))
    if old_format and tags is None:
        tags = []
    try:
        module = tf.saved_model.load(path, tags, options)
    except Exception as error:  # damage causes OpError, DecodeError, OSError, KeyError, ...
        check_saved_model(path, tensors=True)  # names the damaged file, if it can be found
        reason = str(getattr(error, "message", None) or error).strip().split("\n")[0]
        raise ValueError(
            f"SavedModel {path} cannot be read ({reason or type(error).__name__}); "
            "export or download it again"
        ) from error
    if old_format:
        module.is_tf1_hub_module = True
    return module


def is_remote(handle: object) -> bool:
    """Return whether a handle is a URL."""
    return isinstance(handle, str) and re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", handle) is not None
