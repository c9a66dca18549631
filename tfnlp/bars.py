"""Progress: a bar on a terminal or in a notebook, elsewhere lines at intervals."""

import sys
from typing import IO, Any

from tqdm import auto, std

_SECONDS = 10  # between two lines in a file
_COLUMNS = 80  # of a line in a file


def progress_bar(*args: Any, kind: type[std.tqdm] | None = None, **settings: Any) -> std.tqdm:
    """Return a `tqdm` that writes whole lines, without carriage returns, into what is no terminal.

    Args:
        args: of `tqdm`.
        kind: a class with lines of its own; None: tqdm's, in a notebook its widget.
        settings: of `tqdm`; `file` is standard error unless given.
    """
    file = settings.pop("file", sys.stderr)
    if file.isatty():
        settings = {"dynamic_ncols": True, "mininterval": 0.5, **settings}
        return (kind or std.tqdm)(*args, file=file, **settings)
    if kind is None and issubclass(auto.tqdm, _widget()):
        return auto.tqdm(*args, **settings)
    settings = {"mininterval": _SECONDS, "ncols": _COLUMNS, **settings}
    return (kind or std.tqdm)(*args, file=_Lines(file), **settings)


def _widget() -> type:
    """Return tqdm's class for notebooks, which `tqdm.auto` has there if there is ipywidgets."""
    from tqdm import notebook

    return notebook.tqdm


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
