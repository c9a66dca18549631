"""TensorFlow, imported when something of it is first used: with Keras on JAX it may be missing."""

import importlib
import importlib.util
import sys
from typing import Any


class _TensorFlow:
    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("tensorflow"), name)


tf = _TensorFlow()


def has_tensorflow() -> bool:
    """Return whether TensorFlow is installed."""
    return importlib.util.find_spec("tensorflow") is not None


def is_tf_dataset(data: Any) -> bool:
    """Return whether data is a `tf.data.Dataset`; without TensorFlow imported none can be."""
    return sys.modules.get("tensorflow") is not None and isinstance(data, tf.data.Dataset)
