"""The pickles of PyTorch's weight files, read without unpickling.

A pickle is a program for a stack machine, which can call any function that can be imported.
`pickletools` decodes that program without running it. The few instructions that a dict of tensors
needs are executed here; any other instruction, and any function but those that make tensors, is
refused.
"""

from __future__ import annotations

import os
import pickletools
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np

from tfnlp.checkpoints.formats.tensors import MOST_AXES, Refused
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
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_NEW = {"EMPTY_DICT": dict, "EMPTY_LIST": list}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


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


def read_pickle(stream: IO[bytes], storages: dict[str, Storage], path: str | os.PathLike) -> Any:
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
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
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
