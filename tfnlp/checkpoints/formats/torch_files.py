"""PyTorch's weight files, read without torch and without unpickling.

`torch.save` writes the raw numbers of each storage, and a pickle that states where each tensor is
in them. There are two containers: a zip file (torch 1.6 and later), and the older one, five pickles
followed by the storages (torch/serialization.py, `_legacy_save`).

A pickle is a program for a stack machine, which can call any function that can be imported.
`pickletools` decodes that program without running it. The few instructions that a dict of tensors
needs are executed here; any other instruction, and any function but those that make tensors, is
refused.
"""

from __future__ import annotations

import io
import math
import os
import pathlib
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np

from tfnlp.checkpoints.formats.tensors import MOST_AXES, Refused, Tensors, reading
from tfnlp.text.lines import shown

_DTYPES = {
    "Float": np.dtype("<f4"),
    "Half": np.dtype("<f2"),
    "Double": np.dtype("<f8"),
    "BFloat16": np.dtype(ml_dtypes.bfloat16),
    "Long": np.dtype("<i8"),
    "Int": np.dtype("<i4"),
    "Short": np.dtype("<i2"),
    "Char": np.dtype("i1"),
    "Byte": np.dtype("u1"),
    "Bool": np.dtype("?"),
}
_STORAGES = {f"torch.{kind}Storage": dtype for kind, dtype in _DTYPES.items()}
_DICT = "collections.OrderedDict"
_TENSORS = ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2")
_PARAMETER = "torch._utils._rebuild_parameter"
_KNOWN = {_DICT, *_TENSORS, _PARAMETER, *_STORAGES}
# Instructions that put their argument on the stack.
_ARGUMENTS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"}
_ARGUMENTS |= {"SHORT_BINUNICODE", "BINSTRING", "SHORT_BINSTRING"}
_NEW = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_NEW |= {"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
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
        for name, (storage, offset, shape, strides) in state.items():
            steps = zip(shape, strides, strict=True)
            last = offset + sum((n - 1) * step for n, step in steps)
            if math.prod(shape) and last >= storage.count:
                raise ValueError(f"{shown(name)} reaches beyond the end of its storage")
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
    state = _read_pickle(io.BytesIO(_small(content, members[pickles[0]])), storages, path)
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
    if _read_pickle(pickled, {}, path) != _MAGIC or _read_pickle(pickled, {}, path) != _PROTOCOL:
        raise ValueError("it does not begin as torch's files do")
    system = _read_pickle(pickled, {}, path)
    if system["little_endian"] is not True:
        raise ValueError("its numbers are not little-endian")
    storages: dict[str, Storage] = {}
    state = _read_pickle(pickled, storages, path)
    keys = of_type(_read_pickle(pickled, {}, path), list)
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


class _Name(NamedTuple):
    """A function or class of `_KNOWN` that a pickle names; nothing is imported."""

    name: str


class Storage(NamedTuple):
    """The numbers that tensors share: `count` numbers under the name `key`."""

    key: str
    dtype: np.dtype
    count: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * self.dtype.itemsize


class StoredTensor(NamedTuple):
    """The place of a tensor in its storage; offset and strides count numbers, not bytes."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _read_pickle(stream: IO[bytes], storages: dict[str, Storage], path: str | os.PathLike) -> Any:
    """Return the value of the pickle at the stream's position, which is behind it afterwards.

    To `storages`, by key, those that the pickle mentions are added.
    """
    machine = _Machine(storages, path)
    for instruction, argument, _ in pickletools.genops(stream):
        machine.execute(instruction.name, argument)
    (value,) = machine.stack
    return value


class _Machine:
    """The stack machine of pickle.

    Attributes:
        stack: the values above the last mark.
        below: the stacks under each mark.
        memo: values that later instructions refer to.
    """

    def __init__(self, storages: dict[str, Storage], path: str | os.PathLike) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self._storages, self._path = storages, path

    def execute(self, name: str, argument: Any) -> None:
        """Execute one instruction."""
        stack = self.stack
        if name in _ARGUMENTS:
            stack.append(argument)
        elif name in _NEW:
            stack.append(_NEW[name]())
        elif name == "MARK":
            self.below.append(stack)
            self.stack = []
        elif name in ("TUPLE", "SETITEMS", "APPENDS"):
            self.stack = self.below.pop()
            if name == "TUPLE":
                self.stack.append(tuple(stack))
            else:
                _add(self.stack[-1], stack)
        elif name in _TUPLES:
            values = [stack.pop() for _ in range(_TUPLES[name])]
            stack.append(tuple(values[::-1]))
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "SETITEM":
            values = [stack.pop(-2), stack.pop()]
            _add(of_type(stack[-1], dict), values)
        elif name == "APPEND":
            value = stack.pop()
            of_type(stack[-1], list).append(value)
        else:
            self._make(name, argument)

    def _make(self, name: str, argument: Any) -> None:
        """Execute an instruction that names or calls a function."""
        stack = self.stack
        if name == "GLOBAL":
            stack.append(self._known(argument))
        elif name == "STACK_GLOBAL":
            module, function = of_type(stack.pop(-2), str), of_type(stack.pop(), str)
            stack.append(self._known(f"{module} {function}"))
        elif name == "REDUCE":
            arguments = of_type(stack.pop(), tuple)
            stack.append(_result(of_type(stack.pop(), _Name).name, arguments))
        elif name == "BUILD":  # attributes of an OrderedDict: the version of each module
            stack.pop()
            of_type(stack[-1], dict)
        elif name == "BINPERSID":
            stack.append(_storage(of_type(stack.pop(), tuple), self._storages))
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise Refused(
                f"{self._path} holds a pickle with the instruction {name}, which a dict of plain "
                "tensors does not need; nothing of it was run. Save the model's `state_dict()`"
            )

    def _known(self, function: str) -> _Name:
        name = function.replace(" ", ".")
        if name not in _KNOWN:
            raise Refused(
                f"{self._path} calls for {shown(name)}, which a dict of plain tensors does not "
                "need; nothing of it was run. Save the model's `state_dict()`, or convert the "
                "file to model.safetensors if you trust it"
            )
        return _Name(name)


def of_type(value: Any, kind: type) -> Any:
    """Return `value`; raise ValueError if it is not of that type."""
    if type(value) is not kind:
        raise ValueError(f"its pickle has a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"its pickle has {shown(value)} in place of a number of elements")
    return value


def _add(target: list | dict, values: Sequence[Any]) -> None:
    """Add values to a list, or alternating names and values to a dict."""
    if type(target) is list:
        target.extend(values)
        return
    names = [of_type(name, str) for name in values[::2]]
    of_type(target, dict).update(zip(names, values[1::2], strict=True))


def _result(name: str, arguments: tuple) -> dict | StoredTensor:
    """Return the result of the function `name`, without calling it."""
    if name == _DICT and arguments == ():
        return {}
    if name == _PARAMETER:
        return of_type(arguments[0], StoredTensor)
    if name not in _TENSORS:
        raise ValueError(f"its pickle calls {name} with {len(arguments)} arguments")
    storage, offset, shape, strides = arguments[:4]
    sizes = [tuple(_whole(n) for n in of_type(numbers, tuple)) for numbers in (shape, strides)]
    axes = {len(numbers) for numbers in sizes}
    if len(axes) > 1 or max(axes) > MOST_AXES:
        raise ValueError(f"its pickle has a tensor of {axes} axes")
    return StoredTensor(of_type(storage, Storage), _whole(offset), *sizes)


def _storage(identity: tuple, storages: dict[str, Storage]) -> Storage:
    """Return the storage that the pickle calls `("storage", class, key, device, count)`."""
    word, kind, key, _, count, *view = identity
    if word != "storage" or view not in ([], [None]):
        raise ValueError("its pickle refers to something that is not a whole storage")
    if of_type(kind, _Name).name not in _STORAGES:
        raise ValueError(f"its pickle has {kind.name} in place of a kind of storage")
    storage = Storage(of_type(key, str), _STORAGES[kind.name], _whole(count))
    if storages.setdefault(key, storage) != storage:
        raise ValueError(f"its pickle has two kinds of storage {shown(key)}")
    return storage
