"""NumPy's files: `.npz`, and the header of `.npy`. Nothing is unpickled."""

from __future__ import annotations

import math
import pathlib
import zipfile
from typing import IO

import numpy as np

from tfnlp.checkpoints.formats.tensors import Refused, Tensors, reading
from tfnlp.text.lines import shown

# The methods of numpy. The others can need gigabytes to decompress a few bytes.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def npy_header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return (shape, dtype, offset of the data) of the `.npy` file of `size` bytes in `stream`.

    Call it inside `reading`, which names the file in the error of a damaged one.
    """
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version in ((2, 0), (3, 0)):  # which differ in the names of columns
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"version {version} of the format is unknown")
    offset = stream.tell()
    needed = offset + math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and (needed != size or min(shape, default=0) < 0):
        raise ValueError(f"it has {size} bytes, needs {needed}")
    return shape, dtype, offset


def open_npz(path: pathlib.Path) -> Tensors:
    """Open a `.npz` file."""
    members, entries = {}, {}
    with reading(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in members:
                raise ValueError(f"{shown(name)} is in it twice")
            if member.compress_type not in _METHODS:
                raise ValueError(f"{shown(name)} is compressed by another method than deflate")
            with archive.open(member) as stream:
                shape, dtype, _ = npy_header(stream, member.file_size)
            if dtype.hasobject:
                raise Refused(
                    f"{path} holds pickled objects ({shown(name)}), which could run code and are "
                    "not loaded; save plain float arrays"
                )
            members[name], entries[name] = member, (shape, dtype.name)

    def read(name: str) -> np.ndarray:
        with zipfile.ZipFile(path) as archive, archive.open(members[name]) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)

    return Tensors(path, entries, read, path.stat().st_size)
