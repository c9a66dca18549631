"""Byte-pair encoding in plain Python, written from the description of the algorithm."""

import functools
import gzip
import json
import unicodedata

from tests.support import golden

WHITE = {*map(chr, range(0x09, 0x0E)), *" \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"}
WHITE.update(map(chr, range(0x2000, 0x200B)))
_RANKS = {}  # by the id of merges, which are kept with them
CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


@functools.cache
def published(kind: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens by id and merges of GPT ("gpt1") and GPT-2 ("gpt2")."""
    number = "_40000" if kind == "gpt1" else ""
    tokens = golden(f"{kind}_vocabulary/tokens{'_bpe' * bool(number)}{number}.json.gz")
    merges = golden(f"{kind}_vocabulary/vocab{number}.bpe.gz")
    lines = gzip.decompress(merges.read_bytes()).decode().split("\n")[1:-1]
    return json.loads(gzip.decompress(tokens.read_bytes())), [tuple(x.split(" ")) for x in lines]


def kind_of(char: str) -> str:
    if char in WHITE:
        return "white"
    return {"L": "letter", "N": "digit"}.get(unicodedata.category(char)[0], "other")


def split_words(text: str) -> list[str]:
    """GPT-2's pattern, its alternatives tried one by one at each place."""
    words = []
    while text:
        word = next((c for c in CONTRACTIONS if text.startswith(c)), None) or _run(text)
        words.append(word)
        text = text[len(word) :]
    return words


def _run(text: str) -> str:
    begin = 1 if text[0] == " " and len(text) > 1 and kind_of(text[1]) != "white" else 0
    kind = kind_of(text[begin])
    end = begin
    while end < len(text) and kind_of(text[end]) == kind:
        end += 1
    if kind == "white" and 1 < end < len(text):
        end -= 1  # the last one belongs to what follows
    return text[:end]


def merge(symbols: list[str], merges: list[tuple[str, str]]) -> list[str]:
    """All occurrences of the pair that was learnt first, from left to right, again and again."""
    if id(merges) not in _RANKS:
        _RANKS[id(merges)] = {pair: rank for rank, pair in enumerate(merges)}, merges
    ranks, _ = _RANKS[id(merges)]
    while True:
        pairs = [p for p in zip(symbols, symbols[1:], strict=False) if p in ranks]
        if not pairs:
            return symbols
        best = min(pairs, key=ranks.get)
        result, i = [], 0
        while i < len(symbols):
            width = 2 if tuple(symbols[i : i + 2]) == best else 1
            result.append("".join(symbols[i : i + width]))
            i += width
        symbols = result


def byte_names() -> list[str]:
    names, free = [], 0x100
    for byte in range(256):
        if chr(byte).isprintable() and byte not in (0x20, 0xA0, 0xAD):
            names.append(chr(byte))
        else:
            names.append(chr(free))
            free += 1
    return names


def gpt2_tokens(text: bytes, merges: list[tuple[str, str]]) -> list[str]:
    names, tokens = byte_names(), []
    for word in split_words(text.decode("utf-8", "surrogateescape")):
        symbols = [names[byte] for byte in word.encode("utf-8", "surrogateescape")]
        tokens += merge(symbols, merges)
    return tokens
