"""The pickles of PyTorch's weight files, read without unpickling.

A pickle is a program for a stack machine, which may call whatever can be imported. `pickletools`
takes that program apart without running it, and here the few instructions that a dict of tensors
needs are followed; any other, and any function but those that make up tensors, is refused.
"""

import pickletools
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tfnlp.convert.formats.tensors import MOST_AXES, Refused, shown

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


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype
    count: int

    @property
    def size(self):
        return self.count * self.dtype.itemsize


class StoredTensor(NamedTuple):
    """Where the numbers of a tensor lie; offset and strides count numbers, not bytes."""

    storage: _Storage
    offset: int
    shape: tuple
    strides: tuple


def follow(stream, storages, path):
    """The value that the pickle at the stream's position makes.

    Args:
        stream: is left behind the pickle.
        storages: dict of key to `_Storage`, to be filled with those that it mentions.
        path: for errors.

    Raises:
        Refused: for an instruction or a function that a dict of tensors does not need.
        ValueError, IndexError, ...: for a damaged one (for `reading` to name the file).
    """
    stack, below, memo = [], [], {}  # `below` holds the stacks under each mark
    for instruction, argument, _ in pickletools.genops(stream):
        name = instruction.name
        if name in _ARGUMENTS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _NEW:
            stack.append(_NEW[name]())
        elif name == "MARK":
            below.append(stack)
            stack = []
        elif name in ("TUPLE", "SETITEMS", "APPENDS"):
            values, stack = stack, below.pop()
            if name == "TUPLE":
                stack.append(tuple(values))
            else:
                _add(stack[-1], values)
        elif name in _TUPLES:
            values = [stack.pop() for _ in range(_TUPLES[name])]
            stack.append(tuple(values[::-1]))
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "SETITEM":
            values = [stack.pop(-2), stack.pop()]
            _add(of_type(stack[-1], dict), values)
        elif name == "APPEND":
            value = stack.pop()
            of_type(stack[-1], list).append(value)
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            if name == "STACK_GLOBAL":
                argument = f"{of_type(stack.pop(-2), str)} {of_type(stack.pop(), str)}"
            wanted = argument.replace(" ", ".")
            if wanted not in _KNOWN:
                raise Refused(
                    f"{path} calls for {shown(wanted)}, which a dict of plain tensors does not "
                    "need; nothing of it was run. Save the model's `state_dict()`, or convert the "
                    "file to model.safetensors where you trust it"
                )
            stack.append(_Name(wanted))
        elif name == "REDUCE":
            arguments = of_type(stack.pop(), tuple)
            stack.append(_make(of_type(stack.pop(), _Name).name, arguments))
        elif name == "BUILD":  # attributes of an OrderedDict: the version of each module
            stack.pop()
            of_type(stack[-1], dict)
        elif name == "BINPERSID":
            stack.append(_storage(of_type(stack.pop(), tuple), storages))
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise Refused(
                f"{path} holds a pickle with the instruction {name}, which a dict of plain tensors "
                "does not need; nothing of it was run. Save the model's `state_dict()`"
            )
    (value,) = stack
    return value


def of_type(value, kind):
    """`value`, which must be of that type."""
    if type(value) is not kind:
        raise ValueError(f"its pickle has a {type(value).__name__} in place of a {kind.__name__}")
    return value


def _whole(value):
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"its pickle has {shown(value)} in place of a number of elements")
    return value


def _add(target, values):
    """Values to a list, or names and values by turns to a dict."""
    if type(target) is list:
        target.extend(values)
        return
    names = [of_type(name, str) for name in values[::2]]
    of_type(target, dict).update(zip(names, values[1::2], strict=True))


def _make(name, arguments):
    """What the function `name` makes of its arguments."""
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
    return StoredTensor(of_type(storage, _Storage), _whole(offset), *sizes)


def _storage(identity, storages):
    """A storage as the pickle refers to it: `("storage", class, key, device, count)`."""
    word, kind, key, _, count, *view = identity
    if word != "storage" or view not in ([], [None]):
        raise ValueError("its pickle refers to something else than a whole storage")
    if of_type(kind, _Name).name not in _STORAGES:
        raise ValueError(f"its pickle has {kind.name} in place of a kind of storage")
    storage = _Storage(of_type(key, str), _STORAGES[kind.name], _whole(count))
    if storages.setdefault(key, storage) != storage:
        raise ValueError(f"its pickle has two kinds of storage {shown(key)}")
    return storage
