"""Named tensors of a weight file, and the errors of the readers of such files."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tfnlp.text.lines import shown

FLOATS = ("float32", "float16", "bfloat16", "float64")
_BYTES = {"bool": 1, "bfloat16": 2}
_BYTES |= {f"{kind}{8 * n}": n for kind in ("int", "uint") for n in (1, 2, 4, 8)}
_BYTES |= {f"float{8 * n}": n for n in (2, 4, 8)}
MOST_AXES = 32  # the product of any number of sizes could take hours
# Trained weights can hardly be compressed: a file that lists more than this many times its own
# size, and more than a mebibyte, is damaged or made to fill the memory.
_EXPANSION, _FREE = 100, 1 << 20


class Refused(ValueError):
    """A file that a reader does not accept; the message names the file and the reason."""


class Tensors(Mapping[str, np.ndarray]):
    """The tensors of a file: `tensors[name]` reads one, `shapes` and `dtypes` cost nothing.

    Floating point tensors of any width are given as float32, integers and booleans as they are;
    nothing else can be read. A tensor that is read holds finite numbers only; those that nobody
    reads, such as buffers that no model takes, may hold anything.

    Args:
        path: the file, for messages.
        entries: dict of name to (shape, name of the dtype).
        read: function of a name that returns the array.
        held: the size of the file or files in bytes.

    Raises:
        ValueError: for an impossible shape, or tensors far larger than the files.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        entries: Mapping[str, tuple[tuple[int, ...], str]],
        read: Callable[[str], np.ndarray],
        held: int,
    ) -> None:
        self.path = str(path)
        self.shapes = {name: tuple(map(int, shape)) for name, (shape, _) in entries.items()}
        self.dtypes = {name: dtype for name, (_, dtype) in entries.items()}
        self._read = read
        claimed = 0
        for name, shape in self.shapes.items():
            if len(shape) > MOST_AXES or not all(0 <= n < 2**63 for n in shape):
                raise Refused(
                    f"{path} is corrupt: {shown(name)} has the shape {shown(shape)}; fetch it again"
                )
            claimed += math.prod(shape) * _BYTES.get(self.dtypes[name], 1)
        if claimed > _EXPANSION * held + _FREE:
            raise Refused(
                f"{path} has {held} bytes but lists tensors of {claimed}, which is not plausible "
                "for weights; fetch it again"
            )

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.shapes:
            raise KeyError(name)
        shape, dtype = self.shapes[name], self.dtypes[name]
        if dtype not in _BYTES:
            raise Refused(f"{self.path} holds {dtype} in {shown(name)}; expected numbers")
        with reading(self.path, name):
            array = np.asarray(self._read(name))
            if array.shape != shape:
                raise ValueError(f"it has shape {array.shape}, listed as {shape}")
        return self._finite(name, array) if dtype in FLOATS else array

    def _finite(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return the numbers as float32."""
        with np.errstate(over="ignore"):  # of float64; found below
            array = array.astype(np.float32)
        finite = np.isfinite(array)
        if not finite.all():
            places = np.argwhere(~finite)
            first = tuple(map(int, places[0]))
            raise Refused(
                f"{self.path} has {array[first]} at {list(first)} of {shown(name)}, the first of "
                f"{len(places)} values there that are not finite as float32; fetch it again, or "
                "take weights of a training that did not diverge"
            )
        return array

    def __contains__(self, name: object) -> bool:
        return name in self.shapes  # that of `Mapping` would read the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


@contextlib.contextmanager
def reading(path: str | os.PathLike, name: str | None = None) -> Iterator[None]:
    """Turn any error of reading a damaged file into a ValueError of one line.

    The line names the file and, if given, the tensor. Errors of the operating system pass, and so
    does `Refused`.
    """
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        where = "" if name is None else f"in {shown(name)}: "
        raise ValueError(
            f"{path} is truncated, corrupt or not of the format its name says "
            f"({where}{reason(error)}); fetch it again"
        ) from error


def reason(error: Exception) -> str:
    """Return the type of an exception and the first line of its message, cut if it is long."""
    lines = str(error).strip().split("\n")
    line = "".join(char if char.isprintable() else "?" for char in lines[0][:200])
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
