"""Loading a SavedModel from its folder, archive or URL."""

import os
from typing import Any

import tensorflow as tf

from tfnlp.files import first_line
from tfnlp.hub.loading.checks import check_record, check_saved_model
from tfnlp.hub.loading.resolve import resolve

_TF1_FORMAT = "tfhub_module.pb"  # beside the graph of a module of TF-Hub's first format


def load_module(
    handle: str | os.PathLike,
    tags: str | list[str] | None = None,
    options: tf.saved_model.LoadOptions | None = None,
) -> Any:
    """Return what `tf.saved_model.load` returns, in the scope of the current strategy.

    A module of TF-Hub's first format has the attribute `is_tf1_hub_module`, which is True. For the
    handle see `tfnlp.hub.loading.resolve`; without `tags` the only graph is loaded.
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
        raise ValueError(
            f"SavedModel {path} cannot be read ({first_line(error)}); export or download it again"
        ) from error
    if old_format:
        module.is_tf1_hub_module = True
    return module
