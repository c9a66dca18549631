"""The `tfnlp` command within the test process, and the texts that it trains toys on."""

import pathlib
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from tfnlp import books
from tfnlp.cli import command as cli

# The files of a run.
RUN = ["checkpoints", "config.json", "logs", "page.html", "vocab.txt"]


def tfnlp(*arguments: Any) -> int:
    """Return the exit code of `tfnlp ARGUMENTS`."""
    return cli.main(cli.parse(["tfnlp", *map(str, arguments)]))


def error(capsys: pytest.CaptureFixture) -> str:
    """Return the line on stderr that ends a command; it must be an error and no traceback."""
    lines = capsys.readouterr().err.strip().split("\n")
    assert lines[-1].startswith("tfnlp: error: ") and "Traceback" not in "".join(lines)
    return lines[-1]


def write_texts(
    folder: pathlib.Path, characters: int, words: int, held_out: int
) -> tuple[pathlib.Path, pathlib.Path]:
    """Write a part of a book, a sentence a line: a training text and a held-out one.

    Args:
        folder: where `train.txt` and `valid.txt` go.
        characters: how much of the book.
        words: words a line.
        held_out: lines of the held-out text.
    """
    book = books.path().read_text(encoding="utf-8")[:characters].split()
    lines = [" ".join(book[i : i + words]) for i in range(0, len(book), words)]
    for name, part in (("train", lines[:-held_out]), ("valid", lines[-held_out:])):
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n", encoding="utf-8")
    return folder / "train.txt", folder / "valid.txt"


def checkpoint(run: pathlib.Path, kind: str = "step") -> dict[str, np.ndarray]:
    """Return what the newest checkpoint of a run holds, by name, such as "model/layer_0/...".

    Args:
        run: the run's folder.
        kind: "step", or "best" for the one that the other commands load.
    """
    path = max((run / "checkpoints").glob(f"{kind}-*")) / "variables.safetensors"
    return dict(sorted(load_file(path).items()))


def weights(run: pathlib.Path) -> list[np.ndarray]:
    """Return the weights of a run's best model, in the order of their names."""
    found = checkpoint(run, "best").items()
    return [value for name, value in found if name.startswith("model/")]
