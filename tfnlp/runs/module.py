"""Exported modules that are only called: fine-tuned models, translations, word vectors."""

import os
from typing import Any


class Module:
    """A SavedModel that is called and not trained on.

    Args:
        path: Folder, archive or address of a SavedModel.

    Attributes:
        path: As given.
        module: What `tf.saved_model.load` returns.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from tfnlp.hub.loading.saved_model import load_module

        self.path = os.fspath(path)
        self.module = load_module(path)

    def __repr__(self) -> str:
        return f"Module({self.path!r})"

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call the module; lists of strings become tensors.

        Raises:
            ValueError: if the module takes something else; `tfnlp.inspect` says what.
        """
        import tensorflow as tf

        call = self.module if callable(self.module) else self._signature()
        inputs = tf.nest.map_structure(tf.convert_to_tensor, _arrays(inputs))
        named = {name: tf.convert_to_tensor(value) for name, value in named.items()}
        try:
            return call(*inputs, **named)
        except (TypeError, ValueError) as error:
            first = str(error).strip().split("\n")[0]
            raise ValueError(
                f"SavedModel {self.path} takes something else ({first}); "
                f"print(tfnlp.inspect({self.path!r})) says what"
            ) from error

    def _signature(self) -> Any:
        signatures = self.module.signatures
        if "serving_default" in signatures:
            return signatures["serving_default"]
        raise ValueError(f"SavedModel {self.path} can't be called and has no serving_default")


def _arrays(inputs: Any) -> Any:
    """Return nested inputs with lists of values as arrays, so that they are one tensor each."""
    import numpy as np

    if isinstance(inputs, dict):
        return {name: _arrays(value) for name, value in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(_arrays(value) for value in inputs)
    return np.array(inputs) if isinstance(inputs, list) else inputs
