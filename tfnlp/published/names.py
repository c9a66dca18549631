"""The names of published models, and the folder that each one stands for."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from tfnlp.extras import needed

HUGGINGFACE, KAGGLE = "hf://", "kaggle://"
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.\-]*"
_HUGGINGFACE = re.compile(rf"hf://(?P<name>{_WORD}(/{_WORD})?)(@(?P<revision>[^@\s]+))?")
_KAGGLE = re.compile(rf"kaggle://(?P<name>{_WORD}(/{_WORD}){{3}})(/(?P<revision>[0-9]+))?")

# From the names of a repository's files, and a function that downloads one of them and returns its
# path, to the names of those that are needed.
Choose = Callable[[list[str], Callable[[str], str]], list[str]]


@dataclasses.dataclass(frozen=True)
class Fetched:
    """A model on this machine.

    Attributes:
        folder: Where it is; of a model that is not published its path as given.
        revision: The commit or version of a published model; else None.
        is_temporary: Whether it is deleted when it has been used.
    """

    folder: str
    revision: str | None = None
    is_temporary: bool = False


def is_published(path: Any) -> bool:
    """Return whether `path` is a name that `fetch` takes."""
    return isinstance(path, str) and path.startswith((HUGGINGFACE, KAGGLE))


def fetch(name: str, choose: Choose) -> Fetched:
    """Download the files of a published model that are needed and not in the cache yet.

    Args:
        name: `hf://...` or `kaggle://...`.
        choose: Which files of a repository on Hugging Face are needed; may raise an error before
            anything large is downloaded. Kaggle's models are downloaded as a whole.
    """
    if name.startswith(HUGGINGFACE):
        from tfnlp.published.huggingface import download

        return download(name, *_parts(name), choose)
    from tfnlp.published.kaggle import download as download_kaggle

    return download_kaggle(name, *_parts(name))


def at_revision(name: str, revision: str) -> str:
    """Return the name of the same model at a commit (Hugging Face) or version (Kaggle)."""
    mark = "@" if name.startswith(HUGGINGFACE) else "/"
    scheme = HUGGINGFACE if name.startswith(HUGGINGFACE) else KAGGLE
    return f"{scheme}{_parts(name)[0]}{mark}{revision}"


def import_library(package: str, extra: str, latest: str, name: str) -> Any:
    """Return the library that downloads `name`; `latest` is in it, but not in earlier versions."""
    library = needed(package, package, extra, name)
    if not hasattr(library, latest):
        raise ImportError(f"{name} needs a newer {package}: pip install --upgrade {package}")
    return library


def http_status(error: Exception) -> int | None:
    """Return the status of a server's refusal; None for other errors."""
    return getattr(getattr(error, "response", None), "status_code", None)


def _parts(name: str) -> tuple[str, str | None]:
    """Return what follows the scheme, and the revision or version if one is given."""
    match = (_HUGGINGFACE if name.startswith(HUGGINGFACE) else _KAGGLE).fullmatch(name)
    if match is None:
        form = "hf://org/name or hf://org/name@revision"
        if name.startswith(KAGGLE):
            form = "kaggle://owner/model/framework/variation, with or without /version"
        raise ValueError(f"{name!r} is not the name of a published model; expected {form}")
    return match["name"], match["revision"]
