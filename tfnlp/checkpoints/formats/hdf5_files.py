"""HDF5 files, read with pyfive and written with h5py.

pyfive is pure Python: the HDF5 library itself ends the process on some damaged files. Nothing is
read from any other file: data in external files count as missing.
"""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import h5py
import numpy as np

from tfnlp.checkpoints.formats.tensors import Refused, Tensors, reading, reason
from tfnlp.extras import needed
from tfnlp.files import written_whole
from tfnlp.text.lines import shown

if TYPE_CHECKING:
    import pyfive

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_UNDEFINED = 2**64 - 1  # the address of data that were never written
_CONTIGUOUS, _CHUNKED = 1, 2  # layout classes; 0 is compact, inside the header
_NUMBERS = "fiub"  # kinds of dtypes


def open_hdf5(path: pathlib.Path) -> Tensors:
    """Open an HDF5 file; its datasets may be chunked and compressed.

    Raises:
        MissingPackage: if pyfive is not installed.
        ValueError: if the file is damaged, or holds what is not read.
    """
    pyfive = needed("pyfive", "pyfive", "elmo-files", f"{path}, an HDF5 file,")
    with open(path, "rb") as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise ValueError(f"{path} is not an HDF5 file; fetch it again")
    size = path.stat().st_size
    datasets: dict[str, pyfive.Dataset] = {}

    def collect(name: str, item: object) -> None:
        if isinstance(item, pyfive.Dataset):
            datasets[name] = item

    with _reading(path), pyfive.File(str(path)) as file:
        file.visititems(collect, noindex=True)
    entries, empty = {}, []
    for name, dataset in sorted(datasets.items()):
        with _reading(path, name):
            if dataset.shape is None:
                raise ValueError("the dataset has no shape")
            dtype = np.dtype(dataset.dtype)
            known = dtype.kind in _NUMBERS
            entries[name] = tuple(dataset.shape), dtype.name if known else f"HDF5 type {dtype}"
            if not _is_filled(dataset, size):
                empty.append(name)
    if empty:
        raise ValueError(
            f"{path} holds no data of its own for {len(empty)} datasets "
            f"({', '.join(shown(name) for name in empty[:10])}); was it written to the end?"
        )

    def read(name: str) -> np.ndarray:
        with _reading(path, name):
            return datasets[name][...]

    return Tensors(path, entries, read, size)


@contextlib.contextmanager
def written_hdf5(path: str | os.PathLike) -> Iterator[h5py.File]:
    """Yield an HDF5 file to write to, which is at `path` if the block succeeds.

    HDF5 writes through a file of Python, which raises an error on a full disk. By itself the
    library ends the process there.
    """
    with written_whole(path) as partial:
        with open(partial, "w+b") as file, h5py.File(file, "w") as datasets:
            yield datasets


@contextlib.contextmanager
def _reading(path: pathlib.Path, name: str | None = None) -> Iterator[None]:
    """Turn any error into one line, see `reading`; pyfive does not read every kind of HDF5."""
    with reading(path, name):
        try:
            yield
        except (NotImplementedError, RuntimeError, ImportError) as error:
            raise Refused(
                f"{path} is HDF5 of a kind that is not read ({reason(error)}); copy its datasets "
                "to a new file with h5py's defaults"
            ) from error


def _is_filled(dataset: pyfive.Dataset, file_size: int) -> bool:
    """Return whether the file holds all data of a dataset."""
    storage, count = dataset.id, math.prod(dataset.shape)
    if storage.layout_class > _CHUNKED:
        raise NotImplementedError(f"layout class {storage.layout_class}")
    if storage.layout_class == _CONTIGUOUS and count:
        begin, size = storage.data_offset, count * np.dtype(dataset.dtype).itemsize
        if begin != _UNDEFINED and begin + size > file_size:
            raise ValueError(f"its {size} bytes from byte {begin} on reach beyond the file's end")
        return begin != _UNDEFINED
    if storage.layout_class == _CHUNKED and count:
        axes = zip(dataset.shape, dataset.chunks, strict=True)
        return storage.get_num_chunks() >= math.prod(-(-n // chunk) for n, chunk in axes)
    return True
