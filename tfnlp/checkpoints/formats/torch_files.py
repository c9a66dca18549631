"""PyTorch's weight files, read without torch.

`torch.save` writes the raw numbers of each storage, and a pickle that states where each tensor is
in them (`tfnlp.checkpoints.formats.torch_pickle` reads it). There are two containers: a zip file
(torch 1.6 and later), and the older one, five pickles followed by the storages
(torch/serialization.py, `_legacy_save`).
"""

from __future__ import annotations

import io
import math
import pathlib
import struct
import zipfile
import zlib
from typing import Any

import numpy as np

from tfnlp.checkpoints.formats.tensors import Refused, Tensors, reading
from tfnlp.checkpoints.formats.torch_pickle import Storage, StoredTensor, of_type, read_pickle
from tfnlp.text.lines import shown

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of the older container
_MOST_PICKLED = 1 << 19  # bytes; a model of 400 tensors takes about 100,000
# Key of each storage to the place where it begins in the file, and its checksum.
Places = dict[str, tuple[int, int | None]]


def open_torch(path: pathlib.Path) -> Tensors:
    """Open a `pytorch_model.bin`, or any file that `torch.save` made of a flat dict of tensors."""
    with reading(path):
        content = np.memmap(path, np.uint8, "r")
        zipped = content[:4].tobytes() == b"PK\3\4"
        state, places = (_read_zip if zipped else _read_legacy)(path, content)
        plain = isinstance(state, dict) and state
        if not plain or not all(isinstance(tensor, StoredTensor) for tensor in state.values()):
            raise Refused(
                f"{path} holds a {type(state).__name__} that is not a flat dict of tensors; save "
                "the model's `state_dict()`"
            )
        for name, tensor in state.items():
            _check(name, tensor)
    entries = {name: (t.shape, t.storage.dtype.name) for name, t in state.items()}
    checked = set()

    def read(name: str) -> np.ndarray:
        storage, offset, shape, strides = state[name]
        begin, checksum = places[storage.key]
        raw = content[begin : begin + storage.size]
        if storage.key not in checked:
            if checksum not in (None, zlib.crc32(raw)):
                raise ValueError(f"the numbers of {shown(name)} do not match their checksum")
            checked.add(storage.key)
        if not math.prod(shape):
            return np.zeros(shape, storage.dtype)
        numbers = raw.view(storage.dtype)[offset:]
        # An axis of one has no step; its stride may be anything.
        steps = [
            step * storage.dtype.itemsize if n > 1 else 0
            for n, step in zip(shape, strides, strict=True)
        ]
        return np.lib.stride_tricks.as_strided(numbers, shape, steps, writeable=False)

    return Tensors(path, entries, read, content.size)


def _check(name: str, tensor: StoredTensor) -> None:
    """Raise ValueError if a part of a tensor is outside its storage."""
    storage, offset, shape, strides = tensor
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if math.prod(shape) and last >= storage.count:
        raise ValueError(f"{shown(name)} reaches beyond the end of its storage")


def _read_zip(path: pathlib.Path, content: np.ndarray) -> tuple[Any, Places]:
    """Return the value of the pickle in a zip file, and the places of the storages."""
    with zipfile.ZipFile(path) as archive:
        members = {}
        for member in archive.infolist():
            if member.filename in members:
                raise ValueError(f"{shown(member.filename)} is in it twice")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{shown(member.filename)} is compressed, which torch never does")
            members[member.filename] = member
    pickles = [name for name in members if name.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise ValueError(f"it holds {len(pickles)} files data.pkl, expected one")
    folder = pickles[0].removesuffix("data.pkl")
    if f"{folder}byteorder" in members:
        order = _small(content, members[f"{folder}byteorder"])
        if order != b"little":
            raise ValueError(f"its byte order is {order[:10]!r}; only b'little' is read")
    storages: dict[str, Storage] = {}
    state = read_pickle(io.BytesIO(_small(content, members[pickles[0]])), storages, path)
    places = {}
    for key, storage in storages.items():
        begin, end = _place(content, members[f"{folder}data/{key}"])
        if end - begin != storage.size:
            raise ValueError(f"storage {shown(key)} has {end - begin} bytes, needs {storage.size}")
        places[key] = begin, members[f"{folder}data/{key}"].CRC
    return state, places


def _place(content: np.ndarray, member: zipfile.ZipInfo) -> tuple[int, int]:
    """Return where in the file a member that is not compressed begins and ends."""
    header = content[member.header_offset :][:30].tobytes()
    signature, name, extra = struct.unpack("<4s22xHH", header)
    begin = member.header_offset + 30 + name + extra
    end = begin + member.file_size
    if signature != b"PK\3\4" or member.compress_size != member.file_size or end > content.size:
        raise ValueError(f"{shown(member.filename)} is not where the list of files says")
    return begin, end


def _small(content: np.ndarray, member: zipfile.ZipInfo) -> bytes:
    begin, end = _place(content, member)
    if end - begin > _MOST_PICKLED:
        raise ValueError(f"{shown(member.filename)} is longer than {_MOST_PICKLED} bytes")
    raw = content[begin:end].tobytes()
    if zlib.crc32(raw) != member.CRC:
        raise ValueError(f"{shown(member.filename)} does not match its checksum")
    return raw


def _read_legacy(path: pathlib.Path, content: np.ndarray) -> tuple[Any, Places]:
    """Return the same as `_read_zip` for the older container, which has no checksums."""
    pickled = io.BytesIO(content[:_MOST_PICKLED].tobytes())
    if read_pickle(pickled, {}, path) != _MAGIC or read_pickle(pickled, {}, path) != _PROTOCOL:
        raise ValueError("it does not begin as torch's files do")
    system = read_pickle(pickled, {}, path)
    if system["little_endian"] is not True:
        raise ValueError("its numbers are not little-endian")
    storages: dict[str, Storage] = {}
    state = read_pickle(pickled, storages, path)
    keys = of_type(read_pickle(pickled, {}, path), list)
    places, begin = {}, pickled.tell()
    for key in keys:
        (count,) = struct.unpack("<q", content[begin : begin + 8].tobytes())
        begin += 8
        if key in places or count != storages[key].count:
            raise ValueError(f"storage {shown(key)} has {count} numbers, or is there twice")
        places[key] = begin, None
        begin += storages[key].size
    if begin != content.size or places.keys() != storages.keys():
        raise ValueError(f"it has {content.size} bytes, its storages end at {begin}")
    return state, places
