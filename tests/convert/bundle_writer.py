"""The index of a TensorFlow checkpoint taken apart and written again, with right checksums, so
that any part of it can be wrong."""

import struct

from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto

_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)


def crc32c(data):
    """Bit by bit, as it is defined."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def block(items):
    """A block of `(bytes shared with the key before, rest of the key, value)`."""
    body = b"".join(
        varint(shared) + varint(len(key)) + varint(len(value)) + key + value
        for shared, key, value in items
    )
    return body + struct.pack("<II", 0, 1)


def closed(body, kind=0):
    """A block with what stands behind it: how it is compressed, and the checksum."""
    return body + bytes([kind]) + struct.pack("<I", masked(body + bytes([kind])))


def table(*blocks, kind=0):
    """An index of these blocks."""
    content, handles = b"", []
    for number, body in enumerate(blocks):
        handles.append((0, b"%03d" % number, varint(len(content)) + varint(len(body))))
        content += closed(body, kind)
    return end(content, block(handles))


def end(content, handles):
    """The index that ends with this block of handles."""
    filters, index = varint(len(content)) + varint(8), len(content) + 13
    content += closed(block([])) + closed(handles)
    return content + (filters + varint(index) + varint(len(handles))).ljust(40, b"\0") + _MAGIC


def entries(path):
    """Dict of key to value, bytes, of an index of one block that TensorFlow wrote."""
    content = path.read_bytes()
    _, _, handles, _ = numbers(content, len(content) - 48, 4)
    _, length, size, *_ = numbers(content, handles, 3)
    first = handles + 3 + length  # behind three numbers of a byte each, and the key
    begin, size = numbers(content, first, 2)
    assert begin == 0
    (restarts,) = struct.unpack("<I", content[size - 4 : size])
    found, key, at, end = {}, b"", 0, size - 4 - 4 * restarts
    while at < end:
        shared, length, size = numbers(content, at, 3)
        at += sum(len(varint(number)) for number in (shared, length, size))
        key = key[:shared] + content[at : at + length]
        found[key] = content[at + length : at + length + size]
        at += length + size
    return found


def numbers(content, at, count):
    """The `count` numbers that stand one after the other at a place."""
    found = []
    for _ in range(count):
        value = shift = 0
        while content[at] & 0x80:
            value, shift, at = value | (content[at] & 0x7F) << shift, shift + 7, at + 1
        found.append(value | content[at] << shift)
        at += 1
    return found


def write(path, found):
    """Writes an index of one block from a dict of key to value."""
    path.write_bytes(table(block([(0, key, value) for key, value in found.items()])))


def entry(value, **changes):
    """The bytes of an entry with some fields changed; `shape` is a list of sizes."""
    proto = BundleEntryProto.FromString(value)
    shape = changes.pop("shape", None)
    if shape is not None:
        del proto.shape.dim[:]
        for size in shape:
            proto.shape.dim.add(size=size)
    for field, content in changes.items():
        setattr(proto, field, content)
    return proto.SerializeToString()
