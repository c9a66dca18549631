"""Damage to files, and what a reader may do with a damaged file: read it, or say in one line that
it can't; within bounds of time and memory."""

import contextlib
import io
import json
import random
import signal
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

MEBIBYTE = 1 << 20
_SECONDS, _MOST_MEMORY = 10, 160 * MEBIBYTE  # far more than any example needs

Damage = Callable[[bytes, random.Random], bytes]
_NUMBERS = (
    0, 1, 2, 7, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62,
    2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
_FLOATS = (float("nan"), float("inf"), float("-inf"), 3e38, -1e-45)
_PIECES = (b"\xff" * 16, b"\0" * 16, b"9" * 40, b"[" * 5000, b"(" * 300, b"-" * 300)
_TEXTS = ("", "\ud800", "\n", "\0", "x" * 5000, "../../x", "/etc/passwd", "gelu", "1", "\u2028")
_SCALARS = (
    None, True, False, 0, -1, 1, 3, 10**6, 10**9, 2**31 - 1, 2**63, 10**30, 10**4000, 0.5, -1.0,
    1e308, float("inf"), float("nan"), 32.0, [], {}, [1, 2], [[1]], {"a": 1}, *_TEXTS,
)  # fmt: skip
_LINES = (
    "", "##", "a" * 300, "x" * 10**6, "\r", "a\rb", "\0", "\u2028", "\ufeff", "[UNK]", "<S>", "a b",
    "a  b", "a b c", " ", "#version: 9", "\x85", "nan", "a nan inf 1e999",
)  # fmt: skip


@contextlib.contextmanager
def bounded():
    """Fails if what is done inside hangs, or asks for memory beyond all proportion."""

    def stop(*_):
        raise AssertionError(f"took more than {_SECONDS} s")

    # Time that this process computes, so that a busy machine makes no difference.
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    tracemalloc.start()
    try:
        yield
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert used < _MOST_MEMORY, f"took {used} bytes"


def survives(read, *paths):
    """Whether `read()` works; if not, its error must be one of those that are documented, in one
    short line that names one of `paths`."""
    with bounded():
        try:
            read()
            return True
        except (ValueError, OSError) as error:
            message = str(error)
            assert "\n" not in message and len(message) < 3000, message[:3000]
            assert any(str(path) in message for path in paths), message
            return False


def examples(damage: Damage, data: bytes, count: int) -> Iterator[bytes]:
    """Yield `data` with `count` kinds of damage, the same in every run."""
    for number in range(count):
        yield damage(data, random.Random(number))


def damaged_bytes(data: bytes, draw: random.Random) -> bytes:
    """Return `data` with one to three bits turned, pieces overwritten, put in, moved or cut off."""
    for _ in range(draw.randint(1, 3)):
        data = draw.choice((_flipped, _overwritten, _inserted, _moved, _cut))(data, draw)
    return data


def _flipped(data: bytes, draw: random.Random) -> bytes:
    if not data:
        return data
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def _overwritten(data: bytes, draw: random.Random) -> bytes:
    at, piece = draw.randint(0, len(data)), _piece(draw)
    return data[:at] + piece + data[at + len(piece) :]


def _inserted(data: bytes, draw: random.Random) -> bytes:
    at = draw.randint(0, len(data))
    return data[:at] + _piece(draw) + data[at:]


def _moved(data: bytes, draw: random.Random) -> bytes:
    at, begin, size = draw.randint(0, len(data)), draw.randint(0, len(data)), draw.randint(1, 64)
    return data[:at] + data[begin : begin + size] + data[at + size :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randint(0, len(data))]


def _piece(draw: random.Random) -> bytes:
    kind = draw.randrange(4)
    if kind == 0:
        return draw.randbytes(draw.randint(1, 9))
    if kind == 1:
        size = draw.choice((1, 2, 4, 8))
        return (draw.choice(_NUMBERS) % 256**size).to_bytes(size, "little")
    if kind == 2:
        return struct.pack(draw.choice(("<f", "<d", "<e")), draw.choice(_FLOATS[:3]))
    return draw.choice(_PIECES)


def damaged_lines(data: bytes, draw: random.Random) -> bytes:
    """Return a text with lines left out, moved, repeated or put in, and any line ends."""
    lines = data.decode().split("\n")
    for _ in range(draw.randint(1, 3)):
        at, other = draw.randrange(len(lines) + 1), draw.randrange(len(lines))
        kind = draw.randrange(4)
        if kind == 0:
            lines.insert(at, draw.choice(_LINES))
        elif kind == 1:
            lines.insert(at, lines[other])
        elif kind == 2 and len(lines) > 1:
            del lines[other]
        else:
            lines[other] = draw.choice(_LINES)
    end = draw.choice(("\n", "\n", "\n", "\r\n", "\r", "\n\n"))
    return end.join(lines).encode("utf-8", "surrogatepass")


def damaged_json(data: bytes, draw: random.Random) -> bytes:
    """Return JSON with one value in it replaced, left out, or put in."""
    return json.dumps(_changed(json.loads(data), draw)).encode()


def _changed(value: Any, draw: random.Random) -> Any:
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return draw.choice(_SCALARS)
    copy, key = value.copy(), draw.choice(keys)
    if isinstance(value[key], dict | list) and draw.random() < 0.7:
        copy[key] = _changed(value[key], draw)
    elif draw.random() < 0.2:
        del copy[key]
    elif draw.random() < 0.2 and isinstance(copy, dict):
        copy[draw.choice((*_TEXTS, "n_head"))] = draw.choice(_SCALARS)
    elif draw.random() < 0.2:
        copy[key] = copy[draw.choice(keys)]
    else:
        copy[key] = draw.choice(_SCALARS)
    return copy


def damaged_member(data: bytes, draw: random.Random) -> bytes:
    """Return a zip file with damage to one member, and right checksums."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(written, "w") as target:
        members = source.infolist()
        chosen = draw.choice(members).filename
        for member in members:
            content = source.read(member)
            if member.filename == chosen:
                content = damaged_bytes(content, draw)
            target.writestr(member.filename, content, member.compress_type)
    return written.getvalue()


def damaged_header(data: bytes, draw: random.Random) -> bytes:
    """Return a safetensors file with one value of its header changed, and the right length."""
    (size,) = struct.unpack_from("<Q", data)
    header = damaged_json(data[8 : 8 + size], draw)
    return struct.pack("<Q", len(header)) + header + data[8 + size :]
