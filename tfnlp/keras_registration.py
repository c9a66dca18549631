"""Registers tfnlp's layers with Keras as soon as both are imported.

`keras.saving.load_model` finds layers that are registered, and they are when `tfnlp.layers` is
imported. `import tfnlp` alone does not import Keras, so it waits for Keras: when that has been
imported, the layers are.
"""

import importlib
import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Import `tfnlp.layers` after `keras`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "keras":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("keras")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            importlib.import_module("tfnlp.layers")

        spec.loader.exec_module = execute_and_register
        return spec


def register_layers() -> None:
    """Import `tfnlp.layers` now if Keras has been imported, else right after it is."""
    if "keras" in sys.modules:
        importlib.import_module("tfnlp.layers")
    else:
        sys.meta_path.insert(0, _AfterKeras())
