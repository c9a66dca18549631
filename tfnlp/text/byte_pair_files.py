"""Reading and writing byte-pair vocabularies: tokens by id, and merges by rank.

A vocabulary is two files, for which three pairs of names are in use: a JSON object of tokens to
ids, and text with one merge a line, two symbols with a space between, after a first line
`#version: 0.2`.
"""

import json
import os
from collections.abc import Sequence
from typing import NoReturn

from tfnlp.files import write_text
from tfnlp.text.lines import read_lines, shown

FILE_NAMES = (
    ("encoder.json", "vocab.bpe"),  # OpenAI, GPT-2
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),  # OpenAI, GPT
    ("vocab.json", "merges.txt"),  # Hugging Face
)
_VERSION = "#version: 0.2"
_MAX_SPARSE = 1 << 20  # largest id in a small file: ids that are left out take memory, too

Tokens = list[str | None]
Merges = list[tuple[str, str]]


def read_bpe(folder: str | os.PathLike) -> tuple[Tokens, Merges]:
    """Read the vocabulary in `folder`: tokens by id, and merges in the order they were learnt.

    The ids of a whole vocabulary are 0..V-1, and the result of each merge is a token. A file may
    also hold a part of a vocabulary, with ids left out: their tokens are None, and merges that
    result in them are accepted.

    Raises:
        FileNotFoundError: `folder` has none of the pairs of files of `FILE_NAMES`.
        ValueError: a file is not JSON or not UTF-8; an id is not an integer from 0 on, occurs
            twice or is far larger than the number of tokens; a line of merges does not have two
            symbols; or a merge results in no token.
    """
    folder = os.fspath(folder)
    for names in FILE_NAMES:
        encoder, merges = (os.path.join(folder, name) for name in names)
        if os.path.isfile(encoder) and os.path.isfile(merges):
            tokens = _read_tokens(encoder)
            return check_bpe(tokens, _read_merges(merges), encoder, merges)
    _fail_to_find(folder)


def _fail_to_find(folder: str) -> NoReturn:
    if not os.path.isdir(folder):
        problem = "is not a folder" if os.path.exists(folder) else "does not exist"
        raise FileNotFoundError(f"vocabulary folder {folder} {problem}")
    for names in FILE_NAMES:
        for name, other in (names, names[::-1]):
            if os.path.isfile(os.path.join(folder, name)):
                raise FileNotFoundError(
                    f"vocabulary folder {folder} has {name} but lacks {other}; both are needed"
                )
    known = ", ".join(" + ".join(names) for names in FILE_NAMES)
    raise FileNotFoundError(f"vocabulary folder {folder} has no vocabulary; expected {known}")


def _read_tokens(path: str) -> Tokens:
    with open(path, "rb") as file:
        data = file.read()
    try:
        pairs = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Pairs)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"vocabulary file {path} is not valid UTF-8 (byte {error.start}); save it as UTF-8"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"vocabulary file {path} is not JSON ({error})") from error
    if not isinstance(pairs, _Pairs) or not pairs:
        raise ValueError(f"vocabulary file {path} must hold a JSON object of tokens to ids")
    tokens, limit = {}, max(_MAX_SPARSE, 2 * len(pairs))
    for token, i in pairs:
        if type(i) is not int or not 0 <= i < limit:
            raise ValueError(
                f"vocabulary file {path} gives the token {shown(token)} the id {shown(i)}; "
                f"expected an integer from 0 to below {limit}"
            )
        if i in tokens:
            raise ValueError(
                f"vocabulary file {path} gives the id {i} to two tokens, {shown(tokens[i])} "
                f"and {shown(token)}; remove one"
            )
        tokens[i] = token
    return [tokens.get(i) for i in range(max(tokens) + 1)]


class _Pairs(list):
    """The members of a JSON object as a list: a dict would hide those that occur twice."""


def _read_merges(path: str) -> Merges:
    merges = []
    for number, line in enumerate(read_lines(path, "merges file"), 1):
        if number == 1 and line.startswith("#version"):
            continue
        symbols = line.split(" ")
        if len(symbols) != 2 or not all(symbols) or "\r" in line:
            raise ValueError(
                f"merges file {path} has {shown(line)} as line {number}; expected two symbols with "
                "a space between"
            )
        merges.append(tuple(symbols))
    return merges


def check_bpe(
    tokens: Sequence[str | None],
    merges: Sequence[tuple[str, str]],
    encoder: str = "tokens",
    source: str = "merges",
) -> tuple[Tokens, Merges]:
    """Return tokens by id and merges, pairs of symbols, as lists.

    Errors name what holds them, `encoder` and `source`.
    """
    tokens, seen = list(tokens), {}
    for i, token in enumerate(tokens):
        if token is None:
            continue
        if not isinstance(token, str) or not token or not _is_text(token):
            raise ValueError(
                f"{encoder} has {shown(token)} as token {i}; expected a non-empty string"
            )
        if token in seen:
            raise ValueError(
                f"{encoder} has the token {shown(token)} twice, as {seen[token]} and {i}; remove "
                "one"
            )
        seen[token] = i
    if not seen:
        raise ValueError(f"{encoder} is empty; expected tokens")
    whole = len(seen) == len(tokens)
    checked = []
    for number, merge in enumerate(merges):
        if (
            isinstance(merge, str | bytes)
            or len(merge) != 2
            or not all(isinstance(symbol, str) and symbol for symbol in merge)
        ):
            raise ValueError(f"{source} has {shown(merge)} as merge {number}; expected two strings")
        if whole and merge[0] + merge[1] not in seen:
            raise ValueError(
                f"{source} has {shown(' '.join(merge))} as merge {number}, but {encoder} lacks "
                f"its result {shown(merge[0] + merge[1])}; do the two belong together?"
            )
        checked.append(tuple(merge))
    return tokens, checked


def _is_text(token: str) -> bool:
    """Return whether a string can be written as UTF-8: JSON can hold lone surrogates."""
    try:
        token.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_bpe(
    folder: str | os.PathLike, tokens: Sequence[str | None], merges: Sequence[tuple[str, str]]
) -> None:
    """Write `encoder.json` and `vocab.bpe`, each whole or not at all; make `folder` if needed.

    Raises:
        ValueError: tokens and merges are not a usable vocabulary (see `read_bpe`), or a symbol of a
            merge holds a space or line break, which the file cannot express.
    """
    folder = os.fspath(folder)
    tokens, merges = check_bpe(tokens, merges)
    for number, merge in enumerate(merges):
        if any(char in symbol for symbol in merge for char in " \n\r\0"):
            raise ValueError(
                f"merges has {shown(merge)} as merge {number}; symbols in a file cannot hold "
                "spaces, line breaks or NUL"
            )
    os.makedirs(folder, exist_ok=True)
    ids = {token: i for i, token in enumerate(tokens) if token is not None}
    encoder, bpe = (os.path.join(folder, name) for name in FILE_NAMES[0])
    write_text(encoder, json.dumps(ids))
    write_text(bpe, "\n".join([_VERSION, *(" ".join(merge) for merge in merges)]) + "\n")
