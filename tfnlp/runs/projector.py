"""Vectors as TensorBoard's projector reads them.

RUN/logs/projector_config.pbtxt     names the two files; the projector looks for it beside events
RUN/logs/projector/vectors.tsv      a vector a line
RUN/logs/projector/metadata.tsv     what each is of, in columns
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfnlp.files import joined, make_folder, write_text, written_whole

WORDS = 10_000  # most frequent ones that are shown
_FILES = ("projector/vectors.tsv", "projector/metadata.tsv")
_CONFIG = """embeddings {{
  tensor_name: "{}"
  tensor_path: "{}"
  metadata_path: "{}"
}}
"""


def write_projector(
    folder: str, name: str, vectors: np.ndarray, columns: Mapping[str, Sequence[Any]]
) -> None:
    """Write vectors `[N, D]` of a run into its logs, under a name in the projector's list.

    `columns` have for each name N values, the first one the texts.
    """
    logs = joined(folder, "logs")
    make_folder(joined(logs, "projector"))
    write_tables([joined(logs, file) for file in _FILES], [vectors], columns)
    write_text(joined(logs, "projector_config.pbtxt"), _CONFIG.format(name, *_FILES))


def write_tables(
    files: Sequence[str], arrays: Iterable[np.ndarray], columns: Mapping[str, Iterable[Any]]
) -> None:
    """Write two files, each whole or not at all: vectors, and what they are of."""
    with written_whole(files[1]) as partial, open(partial, "w", encoding="utf-8") as file:
        if len(columns) > 1:  # the projector reads no header of a single column
            file.write("\t".join(columns) + "\n")
        for row in zip(*columns.values(), strict=True):
            file.write("\t".join(" ".join(str(x).split()) for x in row) + "\n")
    with written_whole(files[0]) as partial, open(partial, "w", encoding="utf-8") as file:
        for array in arrays:
            np.savetxt(file, array, fmt="%.8g", delimiter="\t")
