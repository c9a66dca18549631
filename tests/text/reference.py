"""BERT's tokenization in plain Python, written from the description of the algorithm."""

import gzip
import unicodedata

from tests.support import golden

IDEOGRAPHS = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)),
    *((0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F)),
)


def bert_vocabulary(casing: str) -> list[str]:
    """The published vocabulary, casing "cased" or "uncased"."""
    with gzip.open(golden(f"bert_base_{casing}_vocab.txt.gz"), "rt", encoding="utf-8") as file:
        return file.read().split("\n")[:-1]


def is_white(char: str) -> bool:
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_control(char: str) -> bool:
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char: str) -> bool:
    ascii_symbol = "!" <= char <= "~" and not char.isalnum()
    return ascii_symbol or unicodedata.category(char).startswith("P")


def is_ideograph(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in IDEOGRAPHS)


def split_words(text: str | bytes, lowercase: bool) -> list[str]:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "ignore")
    spaced = ""
    for char in text:
        if char in "\0\ufffd" or is_control(char):
            continue
        if is_white(char):
            spaced += " "
        else:
            spaced += f" {char} " if is_ideograph(char) else char
    words = []
    for word in spaced.split():
        if lowercase:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if is_punctuation(c) else c for c in word).split()
    return words


def tokenize(text: str | bytes, ids: dict[str, int], lowercase: bool) -> list[list[int]]:
    """The ids of each word, by longest match from the left."""
    result = []
    for word in split_words(text, lowercase):
        pieces, start = [], 0
        while start < len(word) <= 200:
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                if prefix + word[start:end] in ids:
                    pieces.append(ids[prefix + word[start:end]])
                    start = end
                    break
            else:
                break
        result.append(pieces if start == len(word) else [ids["[UNK]"]])
    return result
