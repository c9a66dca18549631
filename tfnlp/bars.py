"""Progress: a bar on a terminal or in a notebook, elsewhere lines at intervals."""

import sys
from typing import IO, Any

from tqdm import auto, std

_SECONDS = 10  # between two lines in a file
_COLUMNS = 80  # of a line in a file or in a notebook
_AGAIN = 0.5  # seconds between two states that people watch


def progress_bar(*args: Any, kind: type[std.tqdm] | None = None, **settings: Any) -> std.tqdm:
    """Return a `tqdm`: a bar on a terminal, the widget of `tqdm.auto` in a notebook.

    In a notebook without ipywidgets it is a line that is written over, and into what shows no
    bar, such as a file, it writes whole lines at intervals, without carriage returns.

    Args:
        args: of `tqdm`.
        kind: a class with lines of its own, for all but the widget; None: tqdm's.
        settings: of `tqdm`; `file` is standard error unless given.
    """
    file = settings.pop("file", sys.stderr)
    if file.isatty():
        settings = {"dynamic_ncols": True, "mininterval": _AGAIN, **settings}
        return (kind or std.tqdm)(*args, file=file, **settings)
    if issubclass(auto.tqdm, _widget()):
        return auto.tqdm(*args, mininterval=_AGAIN, **{**settings, "ncols": None})
    if _is_of_notebook(file):
        settings = {**settings, "mininterval": _AGAIN, "ncols": _COLUMNS}
        return (kind or std.tqdm)(*args, file=file, **settings)
    settings = {"mininterval": _SECONDS, "ncols": _COLUMNS, **settings}
    return (kind or std.tqdm)(*args, file=_Lines(file), **settings)


def _widget() -> type:
    """Return tqdm's class for notebooks, which `tqdm.auto` has there if there is ipywidgets."""
    from tqdm import notebook

    return notebook.tqdm


def _is_of_notebook(file: IO[str]) -> bool:
    """Return whether a stream is shown beneath a cell: a carriage return begins its line again."""
    return type(file).__module__.startswith("ipykernel.")


class _Lines:
    """A text file in which each state of a bar is a line."""

    def __init__(self, file: IO[str]) -> None:
        self.file, self.last = file, ""
        self.encoding = getattr(file, "encoding", None)

    def write(self, text: str) -> None:
        """Write a line; nothing for what only moves the cursor, or says the same again."""
        line = text.replace("\r", "").strip()
        if line and line != self.last:
            self.file.write(f"{line}\n")
            self.last = line

    def flush(self) -> None:
        """Write what Python still keeps."""
        self.file.flush()
