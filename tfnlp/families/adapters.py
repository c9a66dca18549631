"""Adapters of PEFT with the model that they belong to, as one checkpoint in a temporary folder."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator

from tfnlp.families.published import opened


@contextlib.contextmanager
def merged_checkpoint(folder: str) -> Iterator[str]:
    """Yield the folder of the checkpoint that adapters and their model make together."""
    from tfnlp.checkpoints.peft import base_of, write_merged

    base = base_of(folder)
    with tempfile.TemporaryDirectory(prefix="tfnlp_merged_") as directory:
        try:
            with opened(base) as place:
                write_merged(folder, place.folder, directory)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{folder} holds adapters of {base}: {error}") from error
        yield directory
