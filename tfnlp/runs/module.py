"""Exported modules that are only called: fine-tuned models, translations, word vectors."""

import os
from typing import Any

import tensorflow as tf

from tfnlp.hub.loading.saved_model import load_module


class Module:
    """A SavedModel that is called and not trained on.

    Args:
        path: Folder, archive or address of a SavedModel.

    Attributes:
        path: As given.
        module: What `tf.saved_model.load` returns.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.module = load_module(path)

    def __repr__(self) -> str:
        return f"Module({self.path!r})"

    def __call__(self, inputs: Any = None, **named: Any) -> Any:
        """Call the module; lists of strings or numbers become tensors.

        Args:
            inputs: Its one argument: a tensor, a list, or a dict of them.
            named: The entries of a dict in place of it, such as `text=["a sentence"]`.

        Raises:
            ValueError: if the module takes something else; `tfnlp.inspect` says what.
        """
        given = named if inputs is None else inputs
        if isinstance(given, dict):
            given = {name: tf.convert_to_tensor(value) for name, value in given.items()}
        else:
            given = tf.convert_to_tensor(given)
        signatures = self.module.signatures
        if not callable(self.module) and "serving_default" not in signatures:
            raise ValueError(f"SavedModel {self.path} can't be called and has no serving_default")
        try:
            if callable(self.module):
                return self.module(given)
            run = signatures["serving_default"]
            return run(**given) if isinstance(given, dict) else run(given)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"SavedModel {self.path} does not take these inputs; "
                f"print(*tfnlp.inspect({self.path!r})) shows what it takes"
            ) from error
