"""TensorFlow Text, or what to do where it is not installed.

There is none for Windows. Packages import without it, and models train.
"""

from typing import Any


class _Missing:
    """Raises an `ImportError` for whatever is asked of it."""

    def __init__(self, cause: ImportError) -> None:
        self.cause = cause

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(
            f"tokenizing in a graph needs {name} of tensorflow-text, which is not installed: pip "
            "install tensorflow-text, of the version of TensorFlow; for Windows there is none"
        ) from self.cause


tf_text: Any
try:
    import tensorflow_text as tf_text
except ImportError as error:
    tf_text = _Missing(error)
