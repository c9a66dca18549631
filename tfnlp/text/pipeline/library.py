"""What the tokenizers library does to each character, asked of it once.

Its tables of Unicode are those of several versions, and of neither Python nor TensorFlow. So the
tables of a tokenizer are made from its answers, when the tokenizer is made; a tokenizer in a
SavedModel has them with it.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

_PAGE = 256
_APART = "|"
_POINTS = 0x110000
SEQUENCE = 1 << 24  # stands for a sequence, above all code points and tokens
_MODEL = {"type": "WordLevel", "vocab": {}, "unk_token": ""}


@contextlib.contextmanager
def _asked() -> Iterator[None]:
    """Make what the library raises, panics of Rust too, a ValueError of one line."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(" ".join(str(error).split())) from error


@_asked()
def made(contents: Mapping[str, Any]) -> Tokenizer:
    """Return the library's tokenizer of the parts of a `tokenizer.json`, or raise a ValueError."""
    parts = {"version": "1.0", "added_tokens": [], "model": _MODEL, **contents}
    return Tokenizer.from_str(json.dumps(parts))


def _pages() -> Iterator[tuple[list[str], list[int]]]:
    """Yield characters and where pages like theirs begin: one page of all unassigned ones."""
    every = range(0, _POINTS, _PAGE)
    asked = {0x40000: [], 0xF0000: []}
    for first in every:
        if first < 0x34000 or 0xE0000 <= first < 0xE1000 or first in (0xFFF00, 0x10FF00):
            asked[first] = [first]
        else:
            asked[0xF0000 if first >= 0xF0000 else 0x40000].append(first)
    for first, places in asked.items():
        if not 0xD800 <= first < 0xE000:
            yield [chr(i) for i in range(first, first + _PAGE)], places


class CharacterChanges(NamedTuple):
    """What becomes of characters: one other by a difference, or `SEQUENCE + i` for a sequence."""

    differences: np.ndarray  # int32 [0x110000]
    sequences: list[list[int]]  # of code points

    def of(self, char: int) -> list[int]:
        """Return what becomes of one character."""
        becomes = char + int(self.differences[char])
        return [becomes] if becomes < SEQUENCE else self.sequences[becomes - SEQUENCE]


@functools.lru_cache(maxsize=16)  # of 4 MB each
@_asked()
def character_map(step: str) -> CharacterChanges:
    """Return what a normalizer, as JSON, makes of each character."""
    normalize = made({"normalizer": json.loads(step)}).normalizer.normalize_str
    differences = np.zeros(_POINTS, np.int32)
    numbers: dict[str, int] = {}
    for page, places in _pages():
        each = _each(normalize, page, "", _APART)
        if each == page:
            continue
        for text in each:
            if len(text) != 1:
                numbers.setdefault(text, len(numbers))
        becomes = np.array([ord(x) if len(x) == 1 else SEQUENCE + numbers[x] for x in each])
        offsets = np.arange(_PAGE)
        same = becomes == ord(page[0]) + offsets
        for first in places:
            differences[first : first + _PAGE] = np.where(same, 0, becomes - first - offsets)
    return CharacterChanges(differences, [[*map(ord, text)] for text in numbers])


def _each(normalize: Callable[[str], str], page: list[str], prefix: str, apart: str) -> list[str]:
    """Return what becomes of each character after a prefix."""
    parts = normalize(apart.join(prefix + char for char in page)).split(apart)
    return parts if len(parts) == len(page) else [normalize(prefix + char) for char in page]


def _flags(chars: Callable[[list[str]], set[str]]) -> np.ndarray:
    flags = np.zeros(_POINTS, bool)
    for page, places in _pages():
        inside = [ord(char) - ord(page[0]) for char in chars(page)]
        if inside:
            flags[np.add.outer(places, inside)] = True
    return flags


@functools.lru_cache(maxsize=16)  # of 4 MB each
def regex_class(pattern: str) -> np.ndarray:
    """Return which characters a regular expression for one character matches, bool `[0x110000]`."""
    remove = normalizers.Replace(Regex(pattern), "").normalize_str
    return _flags(lambda page: set(page) - set(remove("".join(page))))


@functools.cache
def spaces() -> np.ndarray:
    """Return which characters are white space."""
    return _removed(pre_tokenizers.WhitespaceSplit())


@functools.cache
def punctuation() -> np.ndarray:
    """Return which characters are punctuation."""
    return _removed(pre_tokenizers.Punctuation("removed"))


def _removed(splitter: Any) -> np.ndarray:
    split = splitter.pre_tokenize_str

    def gone(page: list[str]) -> set[str]:
        kept = "".join(part for part, _ in split("".join(page)))
        return set(page) - set(kept)

    return _flags(gone)


@functools.cache
def digits() -> np.ndarray:
    """Return which characters are numeric."""
    split = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str
    return _flags(
        lambda page: {p for p, _ in split("x" + "x".join(page) + "x") if len(p) == 1 and p != "x"}
    )


@functools.cache
def word_characters() -> np.ndarray:
    r"""Return which characters are `\w` of the language that the library is written in."""
    split = pre_tokenizers.Whitespace().pre_tokenize_str

    def inside(page: list[str]) -> set[str]:
        found = set()
        for part, _ in split("_" + "_".join(page) + "_"):
            if part.startswith("_"):
                found |= set(part)
        return found & set(page)

    return _flags(inside)


@functools.cache
def extenders() -> np.ndarray:
    """Return which characters go on the grapheme before them."""
    units = np.zeros(0x400, np.uint32)  # a trie of darts-clone with the one key "a"
    units[0] = 0x100 << 10
    at = 0x100 ^ ord("a")
    units[at] = ord("a") | 1 << 8 | 0x200 << 10
    units[at ^ 0x200] = 1 << 31
    trie = units.astype("<u4").tobytes()
    table = len(trie).to_bytes(4, "little") + trie + b"X\0"
    normalize = normalizers.Precompiled(table).normalize_str

    def joined(page: list[str]) -> set[str]:
        parts = _each(normalize, page, "a", "\n")
        return {char for char, becomes in zip(page, parts, strict=True) if becomes == "X"}

    return _flags(joined)


def normalized_spelling(form: str) -> Callable[[str], str]:
    """Return the library's function of one of Unicode's normal forms."""
    return getattr(normalizers, form)().normalize_str
