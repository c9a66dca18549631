"""Parquet files as tables."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from tfnlp.extras import needed


@contextlib.contextmanager
def open_parquet(path: str | os.PathLike) -> Iterator[Any]:
    """Open a `pyarrow.parquet.ParquetFile`."""
    parquet = needed("pyarrow.parquet", "pyarrow", None, os.fspath(path))
    pyarrow = needed("pyarrow", "pyarrow", None, os.fspath(path))
    path = os.path.expanduser(os.fspath(path))
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file: {path}")
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path} is not a Parquet file, or damaged: {error}") from error


def parquet_table(path: str | os.PathLike) -> tuple[list[str], Iterable[tuple[str, dict]]]:
    """Return the names of the columns and the rows, as `read_table` does."""
    with open_parquet(path) as file:
        header = list(file.schema_arrow.names)
        rows = [row for batch in file.iter_batches() for row in batch.to_pylist()]
    return header, ((f"row {number}", row) for number, row in enumerate(rows, 1))
