"""Files as `torch.save` writes them, made without torch, so that any part of them can be wrong."""

import io
import pickle
import struct
import zipfile
from typing import NamedTuple

import numpy as np

REBUILD, DICT = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
KINDS = {"float32": "FloatStorage", "float16": "HalfStorage", "int64": "LongStorage"}


class Described(NamedTuple):
    """What the pickle says of a tensor; sizes that are no tuples are written as they are."""

    key: object
    kind: str
    count: object
    offset: object
    shape: object
    strides: object


def describe(key, array):
    strides = tuple(step // array.itemsize for step in array.strides)
    return Described(str(key), KINDS[array.dtype.name], array.size, 0, array.shape, strides)


def text(value):
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def value(thing):
    """The instructions that put a simple Python value on the stack."""
    if isinstance(thing, tuple):
        return b"(" + b"".join(map(value, thing)) + b"t"
    return text(thing) if isinstance(thing, str) else pickle.dumps(thing, 2)[2:-1]


def name(words):
    return b"c" + words.replace(" ", "\n").encode() + b"\n"


def tensor(described):
    key, kind, count, offset, shape, strides = described
    storage = b"(" + text("storage") + name(f"torch {kind}") + value(key) + text("cpu")
    storage += value(count) + b"tQ"
    hooks = name(DICT) + b")R"
    numbers = value(offset) + value(shape) + value(strides)
    return name(REBUILD) + b"(" + storage + numbers + b"\x89" + hooks + b"tR"


def state(tensors):
    """The pickle of an OrderedDict of name to `Described`."""
    items = b"".join(text(key) + tensor(described) for key, described in tensors.items())
    return b"\x80\x02" + name(DICT) + b")R(" + items + b"u."


def zipped(pickled, storages, method=zipfile.ZIP_STORED):
    """A zip file as torch has it, from a pickle and a dict of key to bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", b"little")
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
        archive.writestr("archive/version", b"3\n")
    return file.getvalue()


def legacy(pickled, storages, counts):
    """A file of the older container."""
    header = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True}]
    parts = [pickle.dumps(part, 2) for part in header] + [pickled, pickle.dumps(list(storages), 2)]
    for key, data in storages.items():
        parts.append(struct.pack("<q", counts[key]) + data)
    return b"".join(parts)


def saved(arrays):
    """The zip file of a dict of arrays."""
    arrays = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
    described = {key: describe(i, array) for i, (key, array) in enumerate(arrays.items())}
    return zipped(state(described), {i: a.tobytes() for i, a in enumerate(arrays.values())})
