"""Damage to files, and what a reader may do with a damaged file: read it, or say in one line that
it can't; within bounds of time and memory."""

import contextlib
import signal
import tracemalloc

import hypothesis
import hypothesis.strategies as st

MEBIBYTE = 1 << 20
_SECONDS, _MOST_MEMORY = 10, 160 * MEBIBYTE  # far more than any example needs

# The same examples in every run, in no time and with no files of hypothesis's own.
settings = hypothesis.settings(
    max_examples=150,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


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


def drain(tensors):
    """Reads every tensor of a `Tensors` that is made of numbers."""
    for name in tensors:
        tensors[name]


_NUMBERS = st.sampled_from(
    [0, 1, 2, 7, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62,
     2**63 - 1, 2**63, 2**64 - 1]
)  # fmt: skip
_PIECES = st.one_of(
    st.binary(min_size=1, max_size=9),
    st.builds(lambda n, size: (n % 256**size).to_bytes(size, "little"), _NUMBERS,
              st.sampled_from([1, 2, 4, 8])),
    st.sampled_from([b"\xff" * 16, b"\0" * 16, b"9" * 40, b"[" * 5000, b"(" * 300, b"-" * 300]),
)  # fmt: skip
_PLACE = st.floats(0, 1, exclude_max=True)


def _overwritten(place, piece):
    def damage(data):
        at = int(place * len(data))
        return data[:at] + piece + data[at + len(piece) :]

    return damage


def _inserted(place, piece):
    return lambda data: data[: int(place * len(data))] + piece + data[int(place * len(data)) :]


def _moved(place, source, length):
    def damage(data):
        at, begin = int(place * len(data)), int(source * len(data))
        return data[:at] + data[begin : begin + length] + data[at + length :]

    return damage


def _flipped(place, bit):
    def damage(data):
        at = int(place * len(data))
        return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] if data else data

    return damage


def _cut(place):
    return lambda data: data[: int(place * len(data))]


_DAMAGE = st.one_of(
    st.builds(_flipped, _PLACE, st.integers(0, 7)),
    st.builds(_overwritten, _PLACE, _PIECES),
    st.builds(_inserted, _PLACE, _PIECES),
    st.builds(_moved, _PLACE, _PLACE, st.integers(1, 64)),
    st.builds(_cut, _PLACE),
)


def damaged(data, most=3):
    """Strategy: `data` with one or several bits turned, pieces overwritten, put in, moved or cut
    off."""

    def apply(damages):
        result = data
        for damage in damages:
            result = damage(result)
        return result

    return st.lists(_DAMAGE, min_size=1, max_size=most).map(apply)


_TEXT = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["\ud800", "\n", "\0", "x" * 5000, "../../x", "/etc/passwd", "gelu", "1"]),
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 10**6, 10**9, 2**31 - 1, 2**63, 10**30, 10**4000]),
    st.sampled_from([0.5, -1.0, 1e308, float("inf"), float("nan"), 32.0]),
    _TEXT,
)
JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=8,
)


def changed(value):
    """Strategy: the JSON-able `value` with one thing in it replaced, left out, or put in."""
    places = list(_places(value))

    @st.composite
    def strategy(draw):
        *path, last = draw(st.sampled_from(places))
        return _with(value, path, last, draw(st.sampled_from(["set", "set", "drop", "more"])), draw)

    return strategy()


def _places(value, path=()):
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        yield (*path, key)
        if isinstance(member, dict | list):
            yield from _places(member, (*path, key))


def _with(value, path, last, how, draw):
    copy = dict(value) if isinstance(value, dict) else list(value)
    if path:
        copy[path[0]] = _with(copy[path[0]], path[1:], last, how, draw)
    elif how == "drop":
        del copy[last]
    elif how == "more" and isinstance(copy, list):
        copy.insert(last, draw(JSON))
    elif how == "more":
        copy[draw(_TEXT)] = draw(JSON)
    else:
        copy[last] = draw(JSON)
    return copy
