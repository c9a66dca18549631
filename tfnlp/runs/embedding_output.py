"""The outputs of `tfnlp embed`: files of vectors, and indexes to search."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

from tfnlp.extras import needed
from tfnlp.files import written_whole
from tfnlp.runs.search_index import is_index, write_index

FILES = (".npy", ".parquet", ".tsv")  # an output without an ending is a folder, an index


def kind_of(output: str) -> str:
    """Return the ending of an output, "" of an index."""
    kind = os.path.splitext(output.rstrip("/"))[1].lower()
    if kind not in (*FILES, ""):
        raise ValueError(
            f"`output` {output} must end in {', '.join(FILES)}, or have no ending for an index to "
            "search"
        )
    return kind


def outputs(output: str, kind: str) -> list[str]:
    """Return the paths that are written."""
    if kind != ".tsv":
        return [output.rstrip("/") if kind == "" else output]
    return [output, os.path.splitext(output)[0] + ".metadata.tsv"]


def check_free(path: str, overwrite: bool) -> None:
    """Check that an output may be written."""
    if not os.path.exists(path):
        return
    if not overwrite:
        raise FileExistsError(f"{path} exists; choose another `output`, or `overwrite` it")
    if os.path.isdir(path) and not is_index(path):
        raise FileExistsError(f"{path} is a folder but no index; choose another `output`")


def write_output(
    kind: str,
    files: list[str],
    parts: list[str],
    shape: tuple[int, int],
    texts: Iterator[str],
    index: dict[str, Any],
) -> None:
    """Write the output, whole or not at all; but for an index with one part in memory.

    `parts` are paths of arrays; `index` has, for an index, `approximate` and `settings`, what its
    file says of the model.
    """
    arrays = (np.load(path) for path in parts)
    if kind == "":
        with written_whole(files[0]) as partial:
            os.mkdir(partial)
            write_index(partial, arrays, texts, index["settings"], index["approximate"])
            if os.path.exists(files[0]):
                shutil.rmtree(files[0])
    elif kind == ".npy":
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        with written_whole(files[0]) as partial, open(partial, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for array in arrays:
                file.write(array.astype("<f4").tobytes())
    elif kind == ".tsv":
        with written_whole(files[1]) as partial, open(partial, "w", encoding="utf-8") as file:
            # The projector reads a row a line, and no header of a single column.
            file.writelines(" ".join(text.split()) + "\n" for text in texts)
        with written_whole(files[0]) as partial, open(partial, "w", encoding="utf-8") as file:
            for array in arrays:
                np.savetxt(file, array, fmt="%.8g", delimiter="\t")
    else:
        _write_parquet(files[0], arrays, shape[1], texts)


def _write_parquet(
    path: str, arrays: Iterator[np.ndarray], size: int, texts: Iterator[str]
) -> None:
    """Write the columns `text` and `embedding`, a row group a part."""
    parquet = needed("pyarrow.parquet", "pyarrow", None, path)
    pyarrow = needed("pyarrow", "pyarrow", None, path)
    vector = pyarrow.list_(pyarrow.float32(), size)
    schema = pyarrow.schema([("text", pyarrow.string()), ("embedding", vector)])
    with written_whole(path) as partial, parquet.ParquetWriter(partial, schema) as writer:
        for array in arrays:
            flat = pyarrow.array(array.ravel(), pyarrow.float32())
            columns = [
                pyarrow.array(list(itertools.islice(texts, len(array))), pyarrow.string()),
                pyarrow.FixedSizeListArray.from_arrays(flat, size),
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
