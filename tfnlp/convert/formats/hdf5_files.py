"""HDF5 files as h5py writes them, read with numpy.

The HDF5 library crashes or hangs on some files that are damaged. What weights need of the format
(HDF5 File Format Specification, version 1.1, which is what h5py writes unless told otherwise) is
little: groups, which are B-trees of links by name, and datasets that lie in one piece. Nothing
leads out of the file: links to other files and data in other files are refused.
"""

import math
import struct

import numpy as np

from tfnlp.convert.formats.tensors import Refused, Tensors, reading, shown

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_NOWHERE = 2**64 - 1
_LONGEST_NAME, _DEEPEST = 1024, 32  # bytes; groups in each other
# Messages in the header of an object: what it is.
_SPACE, _TYPE, _EXTERNAL, _LAYOUT, _CONTINUED, _GROUP = 0x1, 0x3, 0x7, 0x8, 0x10, 0x11
_NEWER_GROUP = {0x2, 0x6, 0xA}
_SOFT_LINK = 2
# Where sign, exponent and mantissa lie in IEEE floats of so many bytes, and the exponent's bias.
_FLOATS = {
    2: (15, 0, 16, 10, 5, 0, 10, 15),
    4: (31, 0, 32, 23, 8, 0, 23, 127),
    8: (63, 0, 64, 52, 11, 0, 52, 1023),
}


def open_hdf5(path):
    """The datasets of an HDF5 file, as `Tensors`.

    Raises:
        ValueError: if it is not HDF5, damaged, of a kind that isn't read, or if data are missing:
            HDF5 can leave them out, or to other files. Also while a dataset is read.
    """
    with open(path, "rb") as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise ValueError(f"{path} is not an HDF5 file; fetch it again")
    with reading(path):
        content = np.memmap(path, np.uint8, "r")
        datasets = dict(sorted(_File(path, content).datasets().items()))
    empty = [name for name, (_, _, begin) in datasets.items() if begin is None]
    if empty:
        raise ValueError(
            f"{path} holds no data of its own for {len(empty)} datasets "
            f"({', '.join(name[:80] for name in empty[:10])}); was it written to the end?"
        )

    def read(name):
        shape, dtype, begin = datasets[name]
        end = begin + math.prod(shape) * dtype.itemsize
        return content[begin:end].view(dtype).reshape(shape)

    entries = {
        name: (shape, getattr(dtype, "name", dtype)) for name, (shape, dtype, _) in datasets.items()
    }
    return Tensors(path, entries, read, content.size)


class _File:
    """What lies where in `content`, uint8 `[N]`; all addresses are checked before they are used."""

    def __init__(self, path, content):
        self._path, self._content = path, content
        # Every link, message and node takes 8 bytes at least: a file that goes through more of
        # them than it has room for leads in circles.
        self._room = content.size // 8

    def datasets(self):
        """Dict of name to shape, dtype (or what else it is) and where the data begin, or None."""
        version, offsets, lengths = self._unpack("<8xB4xBB", 0)
        if version > 1:
            self._refuse("is of a newer HDF5 format")
        if (offsets, lengths) != (8, 8):
            raise ValueError(f"its addresses have {offsets} and {lengths} bytes, expected 8")
        base, end, root = self._unpack("<Q8xQ16xQ", 28 if version else 24)
        if base or end > self._content.size:
            raise ValueError(f"it has {self._content.size} bytes of {base + end}, it was truncated")
        found, seen, groups = {}, {root}, [("", self._messages(root))]
        while groups:
            prefix, messages = groups.pop()
            if prefix.count("/") > _DEEPEST:
                raise ValueError(f"it has more than {_DEEPEST} groups in each other")
            if _NEWER_GROUP & set(messages):
                self._refuse("links to other files or has groups of a newer HDF5 format")
            for name, target in self._links(*self._unpack("<QQ", messages[_GROUP])):
                if target in seen:  # another name of the same object
                    continue
                seen.add(target)
                messages, name = self._messages(target), prefix + name
                if name in found:
                    raise ValueError(f"it has {shown(name)} twice")
                if _LAYOUT in messages:
                    found[name] = self._dataset(name, messages)
                elif {_GROUP, *_NEWER_GROUP} & set(messages):
                    groups.append((f"{name}/", messages))
        return found

    def _links(self, tree, heap):
        """Names in a group and addresses of the objects, without soft links."""
        self._expect(b"HEAP", heap)
        size, names = self._unpack("<8xQ8xQ", heap)
        for leaf in self._leaves(tree):
            self._expect(b"SNOD", leaf)
            (count,) = self._unpack("<6xH", leaf)
            self._spend(count)
            for at in range(leaf + 8, leaf + 8 + 40 * count, 40):
                begin, target, kind = self._unpack("<QQI", at)
                if kind != _SOFT_LINK:
                    room = self._content[names + begin : names + size][:_LONGEST_NAME]
                    name, ended, _ = room.tobytes().partition(b"\0")
                    if not ended:
                        raise ValueError(f"at byte {names + begin} is no name of a link")
                    yield name.decode(), target

    def _leaves(self, root):
        """Addresses of the leaves of a group's B-tree."""
        nodes = [root]
        while nodes:
            node = nodes.pop()
            self._expect(b"TREE", node)
            kind, level, count = self._unpack("<4xBBH", node)
            self._spend(count + 1)
            if kind:
                raise ValueError(f"at byte {node} is a tree of kind {kind}, expected 0")
            children = self._unpack(f"<24x{'8xQ' * count}", node)
            if level:
                nodes.extend(children)
            else:
                yield from children

    def _messages(self, address):
        """Dict of the kind of each message in an object's header to where it begins."""
        if self._content[address : address + 4].tobytes() == b"OHDR":
            self._refuse("is of a newer HDF5 format")
        version, count, size = self._unpack("<BxH4xI", address)
        if version != 1:
            raise ValueError(f"at byte {address} is an object of version {version}, expected 1")
        self._spend(count)
        found, blocks = {}, [(address + 16, address + 16 + size)]
        while blocks and count:
            at, end = blocks.pop()
            while at + 8 <= end and count:
                kind, size, flags = self._unpack("<HHB", at)
                if kind == _CONTINUED:
                    begin, length = self._unpack("<QQ", at + 8)
                    blocks.append((begin, begin + length))
                if flags & 2 and kind in (_SPACE, _TYPE, _LAYOUT):
                    self._refuse("has datasets that share a description")
                found[kind] = at + 8
                at, count = at + 8 + size, count - 1
        return found

    def _dataset(self, name, messages):
        shape = self._shape(messages[_SPACE])
        dtype = self._dtype(messages[_TYPE])
        if isinstance(dtype, str):
            return shape, dtype, 0
        version, kind = self._unpack("<BB", messages[_LAYOUT])
        if version != 3 or kind not in (1, 2):
            self._refuse(f"keeps {shown(name)} in a way that HDF5 1.6 has not")
        begin, size = self._unpack("<QQ", messages[_LAYOUT] + 2) if kind == 1 else (None, None)
        if shape is None or _EXTERNAL in messages or begin == _NOWHERE:
            return shape or (), dtype, None
        if kind == 2:
            self._refuse(f"keeps {shown(name)} in chunks, maybe compressed")
        if size != math.prod(shape) * dtype.itemsize or begin + size > self._content.size:
            raise ValueError(f"{shown(name)} of shape {shape} has {size} bytes from byte {begin}")
        return shape, dtype, begin

    def _shape(self, at):
        """None for a dataset without a shape."""
        version, rank, kind = self._unpack("<BBxB", at)
        if version not in (1, 2):
            raise ValueError(f"at byte {at} is a shape of version {version}")
        if version == 2 and kind == 2:
            return None
        return self._unpack(f"<{8 if version == 1 else 4}x{rank}Q", at)

    def _dtype(self, at):
        """A dtype, or for what is no number a word."""
        kind, order, sign, size = self._unpack("<BBBxI", at)
        big = "<>"[order & 1]
        if kind & 15 == 0 and self._unpack("<8xHH", at) == (0, 8 * size) and size in (1, 2, 4, 8):
            return np.dtype(f"{big}{'i' if order & 8 else 'u'}{size}")
        if kind & 15 == 1 and (sign, *self._unpack("<8xHHBBBBI", at)) == _FLOATS.get(size):
            return np.dtype(f"{big}f{size}")
        return f"HDF5 class {kind & 15}"

    def _unpack(self, form, at):
        """Numbers at a place; struct.error beyond the end."""
        return struct.unpack(form, self._content[at : at + struct.calcsize(form)].tobytes())

    def _expect(self, signature, at):
        if self._content[at : at + 4].tobytes() != signature:
            raise ValueError(f"at byte {at} is no {signature.decode()}")

    def _spend(self, count):
        self._room -= count
        if self._room < 0:
            raise ValueError("its groups lead in circles")

    def _refuse(self, what):
        raise Refused(
            f"{self._path} {what}, which is not read; copy its datasets to a new file with h5py's "
            "defaults"
        )
