"""A SavedModel from its folder, archive or URL."""

import os
import re

import tensorflow as tf

from tfnlp.hub.loading.resolve import resolve
from tfnlp.hub.saving.checks import check_saved_model

GRAPH = "saved_model.pb"
_TF1_FORMAT = "tfhub_module.pb"  # beside the graph of a module of TF-Hub's first format


def load_module(handle, tags=None, options=None):
    """What `tf.saved_model.load` gives, in the current strategy's scope.

    A module of TF-Hub's first format has the attribute `is_tf1_hub_module`, which is True.

    Args:
        handle: see `tfnlp.hub.loading.resolve`.
        tags: of the graph to load; None: the only one.
        options: a `tf.saved_model.LoadOptions`, or None.

    Raises:
        FileNotFoundError: if there is no SavedModel.
        ValueError: if it can't be read.
        OSError: if it can't be fetched.
    """
    path = resolve(handle)
    check_saved_model(path)
    old_format = os.path.isfile(os.path.join(path, _TF1_FORMAT))
    if old_format and tags is None:
        tags = []
    try:
        module = tf.saved_model.load(path, tags, options)
    except Exception as error:  # damage shows as OpError, DecodeError, OSError, KeyError, ...
        check_saved_model(path, tensors=True)  # which file it is in, if that can be told
        reason = str(getattr(error, "message", None) or error).strip().split("\n")[0]
        raise ValueError(
            f"SavedModel {path} cannot be read ({reason or type(error).__name__}); "
            "export or download it again"
        ) from error
    if old_format:
        module.is_tf1_hub_module = True
    return module


def remote(handle):
    """Whether a handle is a URL."""
    return isinstance(handle, str) and re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", handle) is not None
