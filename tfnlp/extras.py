"""Packages that only some work needs; the extras of the installation bring them."""

import importlib
from types import ModuleType


def needed(module: str, package: str, extra: str, work: str) -> ModuleType:
    """Return an optional module.

    Args:
        module: what is imported, such as "sacrebleu.metrics".
        package: what is installed.
        extra: the extra of tfnlp that has it.
        work: what needs it, for the message.

    Raises:
        ImportError: if it is not installed; one line that says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{work} needs {package}: pip install {package} (the extra `{extra}`)"
        ) from error
