"""Packages that only some work needs; the extras of the installation bring them."""

import functools
import importlib
import sys
from types import ModuleType


class MissingPackage(ImportError):
    """An optional package is not installed."""


def needed(module: str, package: str, extra: str | None, work: str) -> ModuleType:
    """Return an optional module.

    Args:
        module: what is imported, such as "sacrebleu.metrics".
        package: what is installed.
        extra: the extra of tfnlp that has it, if there is one.
        work: what needs it, for the message.

    Raises:
        MissingPackage: if it is not installed; one line that says how to install it. An error
            within a package that is installed is raised as it is.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != module.split(".")[0]:
            raise
        of = f" (the extra `{extra}`)" if extra else ""
        raise MissingPackage(f"{work} needs {package}: pip install {package}{of}") from error


@functools.cache
def say_once(message: str) -> None:
    """Print a line to standard error, the first time that this process has it to say."""
    print(message, file=sys.stderr, flush=True)
