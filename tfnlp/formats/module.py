"""Exported modules that are only called: fine-tuned models, translations, word vectors."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfnlp.data.rows import is_text, plain, rows_of
from tfnlp.data.texts import texts_of
from tfnlp.hub.loading.saved_model import load_module
from tfnlp.hub.loading.traces import only_input, traces_of


class Module:
    """A SavedModel that is called and not trained on.

    Args:
        path: Folder, archive or address of a SavedModel.
        kind: What it is, see `tfnlp.hub.saved_kind`; None if that is not known.

    Attributes:
        path, kind: As given.
        module: What `tf.saved_model.load` returns.
    """

    title = "an exported module"

    def __init__(self, path: str | os.PathLike[str], kind: str | None = None) -> None:
        self.path, self.kind = os.fspath(path), kind
        self.module = load_module(path)

    def __repr__(self) -> str:
        return f"Module({self.path!r})"

    def export(self, directory: str | os.PathLike[str], **settings: Any) -> None:
        """Raise ValueError: a module is written of the model that it was made from."""
        raise ValueError(
            f"{self.path} is an exported module: it can be called; give the run or checkpoint that "
            "it was made from"
        )

    def __call__(self, inputs: Any = None, **named: Any) -> Any:
        """Call the module; what is no tensor becomes one, and a string is one text.

        Args:
            inputs: Its one argument: a tensor, numbers or texts in anything that `tfnlp.pretrain`
                takes texts in; or the named ones, in a dict or the columns of a table.
            named: The named ones in place of it, such as `text=["a sentence"]`.

        Raises:
            ValueError: if the module takes something else; `tfnlp.inspect` says what.
        """
        signatures = self.module.signatures
        if not callable(self.module) and "serving_default" not in signatures:
            raise ValueError(f"SavedModel {self.path} can't be called and has no serving_default")
        function = self.module if callable(self.module) else signatures["serving_default"]
        given = _tensors(named) if inputs is None else self._given(function, inputs)
        try:
            if function is not self.module and isinstance(given, dict):
                return function(**given)
            return function(given)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"SavedModel {self.path} does not take these inputs; "
                f"print(*tfnlp.inspect({self.path!r})) shows what it takes"
            ) from error

    def _given(self, function: Callable, inputs: Any) -> Any:
        """Return inputs as tensors, in the structure that the module takes."""
        traces = traces_of(function)
        only = only_input(traces, signature=function is not self.module)
        columns = inputs if isinstance(inputs, Mapping) else None
        if columns is None:
            inputs = _values(inputs, "inputs")
            if isinstance(inputs, list) and isinstance(inputs[0], dict):
                columns = {name: [row.get(name) for row in inputs] for name in inputs[0]}
        if columns is not None:
            named = [t.inputs for t in traces if isinstance(t.inputs, dict)]
            fitting = [names for names in named if names.keys() <= columns.keys()]
            one = only or any(hasattr(trace.inputs, "dtype") for trace in traces)
            if fitting or not one:
                names = max(fitting, key=len, default=columns)
                return _tensors({name: columns[name] for name in names})
            inputs = texts_of(columns, "inputs")
        tensor = tf.convert_to_tensor(inputs)
        return tensor if only is None else {only: tensor}


def _tensors(columns: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    return {name: tf.convert_to_tensor(_values(x, name)) for name, x in columns.items()}


def _values(value: Any, argument: str) -> Any:
    """Return a list of what a container holds; tensors, arrays and numbers as they are."""
    if is_text(value):
        return [plain(value)]
    if isinstance(value, tf.Tensor | np.ndarray) or np.isscalar(value):
        return value
    return [row for _, row in rows_of(value, argument)]
