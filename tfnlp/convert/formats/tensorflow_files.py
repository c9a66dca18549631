"""TensorFlow's checkpoints (`tensor_bundle`), read with numpy.

TensorFlow's own reader ends the process when an index with right checksums says something absurd,
so the index is read here: a sorted table of strings (core/lib/io/table_format.txt), of the name of
each tensor to a `BundleEntryProto` that says in which of the data files it lies, and where.
"""

import math
import re
import struct

import ml_dtypes
import numpy as np
from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

from tfnlp.convert.formats.crc32c import masked_crc32c
from tfnlp.convert.formats.tensors import MOST_AXES, Refused, Tensors, reading, shown

_SLOT = re.compile(r"(/(adam_m|adam_v|Adam|Adam_1)|(^|/)(global_step|beta[12]_power))$")
# core/framework/types.proto
_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 9: "<i8", 10: "?"}
_DTYPES |= {14: ml_dtypes.bfloat16, 17: "<u2", 19: "<f2", 22: "<u4", 23: "<u8"}
_DTYPES = {number: np.dtype(dtype) for number, dtype in _DTYPES.items()}
_FOOTER, _TRAILER = 48, 5  # bytes at the end of the file, and behind each block
_TABLE_MAGIC = 0xDB4775248B80FB57
_MOST_INDEXED = 1 << 22  # bytes; a tensor takes about 50
_LONGEST_KEY, _LONGEST_VARINT = 4096, 63  # bytes, bits


def open_tensorflow(prefix):
    """The tensors of `prefix.index` and `prefix.data-*` but for optimizer slots and counters.

    Raises:
        FileNotFoundError: if a data file is missing.
        ValueError: if one is truncated or corrupt, or the checkpoint of a kind that isn't read;
            also while a tensor is read.
    """
    index = prefix.with_name(f"{prefix.name}.index")
    size = index.stat().st_size
    if size > _MOST_INDEXED:
        raise Refused(f"{index} has {size} bytes, more than {_MOST_INDEXED}; is it an index?")
    with reading(index):
        table = _table(np.fromfile(index, np.uint8))
        header = BundleHeaderProto.FromString(table.pop(b""))
        found = {
            name.decode(errors="backslashreplace"): BundleEntryProto.FromString(value)
            for name, value in table.items()
        }
        if header.endianness != header.LITTLE:
            raise ValueError("its numbers are not little-endian")
        entries = {name: _check(name, entry, header) for name, entry in found.items()}
    sizes = _check_files(prefix, found, header.num_shards)

    def read(name):
        entry = found[name]
        path = _data_file(prefix, entry.shard_id, header.num_shards)
        raw = np.fromfile(path, np.uint8, entry.size, offset=entry.offset)
        if raw.size != entry.size or masked_crc32c(raw) != entry.crc32c:
            raise ValueError(f"the numbers of {shown(name)} do not match their checksum")
        return raw.view(_DTYPES[entry.dtype]).reshape(entries[name][0])

    kept = {name: entry for name, entry in entries.items() if not _SLOT.search(name)}
    return Tensors(prefix, kept, read, sum(sizes.values()))


def _check(name, entry, header):
    """Shape and dtype of an entry that makes sense."""
    shape = tuple(dim.size for dim in entry.shape.dim[: MOST_AXES + 1])
    if entry.slices:
        raise ValueError(f"{shown(name)} is stored in slices, which are not read")
    if not 0 <= entry.shard_id < header.num_shards or min(entry.offset, entry.size) < 0:
        raise ValueError(f"{shown(name)} lies nowhere")
    if len(shape) > MOST_AXES or min(shape, default=0) < 0:
        raise ValueError(f"{shown(name)} has the shape {shown(shape)}")
    if entry.dtype not in _DTYPES:
        return shape, f"dtype {entry.dtype}"
    dtype = _DTYPES[entry.dtype]
    if math.prod(shape) * dtype.itemsize != entry.size:
        raise ValueError(f"{shown(name)} of shape {shown(shape)} takes {entry.size} bytes")
    return shape, dtype.name


def _check_files(prefix, found, num_shards):
    """Dict of each data file to its size, if all are there and long enough."""
    ends = {}
    for entry in found.values():
        path = _data_file(prefix, entry.shard_id, num_shards)
        ends[path] = max(ends.get(path, 0), entry.offset + entry.size)
    sizes = {}
    for path, end in ends.items():
        if not path.is_file():
            raise FileNotFoundError(f"{prefix}.index has no {path.name} beside it")
        sizes[path] = path.stat().st_size
        if sizes[path] < end:
            raise Refused(
                f"{path} has {sizes[path]} bytes, but {prefix.name}.index lists tensors up to "
                f"{end}; the files are truncated or don't belong together, fetch them again"
            )
    return sizes


def _data_file(prefix, shard, num_shards):
    return prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{num_shards:05d}")


def _table(content):
    """All keys and values, bytes, of a sorted table of strings, uint8 `[N]`."""
    footer = content[-_FOOTER:].tobytes()
    if struct.unpack("<Q", footer[-8:]) != (_TABLE_MAGIC,):
        raise ValueError("its last bytes are not those of an index")
    _, place = _handle(footer, 0)  # of the index of filters, which there are none of
    place, _ = _handle(footer, place)
    items, end, room = {}, 0, 16 * content.size
    for _, value in _items(_block(content, *place)):
        (begin, size), _ = _handle(value, 0)
        if begin < end:
            raise ValueError("its blocks overlap")
        end = begin + size
        for key, value in _items(_block(content, begin, size)):
            if key in items:
                raise ValueError(f"it lists {shown(key)} twice")
            items[key] = value
            room -= len(key)
            if room < 0:  # each key can repeat the one before for a byte
                raise ValueError("its keys are implausibly long")
    return items


def _handle(data, at):
    """Where a block begins and how long it is, and the place behind this."""
    begin, at = _varint(data, at)
    size, at = _varint(data, at)
    return (begin, size), at


def _block(content, begin, size):
    block = content[begin : begin + size + _TRAILER]
    if block.size != size + _TRAILER:
        raise ValueError("its blocks reach beyond its end")
    (checksum,) = struct.unpack("<I", block[size + 1 :].tobytes())
    if masked_crc32c(block[: size + 1]) != checksum:
        raise ValueError("a block does not match its checksum")
    if block[size]:
        raise ValueError("its index is compressed, which is not read")
    return block[:size].tobytes()


def _items(block):
    """The keys and values of a block; a key begins like the one before it."""
    (restarts,) = struct.unpack("<I", block[-4:])
    at, end, key = 0, len(block) - 4 - 4 * restarts, b""
    while at < end:
        shared, at = _varint(block, at)
        length, at = _varint(block, at)
        size, at = _varint(block, at)
        if shared > len(key) or at + length + size > end or shared + length > _LONGEST_KEY:
            raise ValueError("an entry of it reaches beyond its block")
        key = key[:shared] + block[at : at + length]
        at += length + size
        yield key, block[at - size : at]


def _varint(data, at):
    value = shift = 0
    while data[at] & 0x80 and shift < _LONGEST_VARINT:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1
