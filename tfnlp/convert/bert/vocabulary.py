"""BERT's vocabulary file, and whether its text was lower-cased."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterable

from tfnlp.convert.formats.json_files import read_json
from tfnlp.text.lines import shown

_SPECIAL = re.compile(r"\[.*\]|<.*>")
_CASE = re.compile(r"(?<![a-z])(un)?cased(?![a-z])", re.IGNORECASE)


def vocabulary_lines(path: pathlib.Path) -> list[str]:
    """Return the lines of a `vocab.txt`; the tokenizer checks whether they make a vocabulary.

    Raises:
        FileNotFoundError: if it does not exist.
        ValueError: if it is not UTF-8.
    """
    if not path.is_file():
        raise FileNotFoundError(f"vocabulary {path} does not exist")
    try:
        # Only "\n" ends a line here: some vocabularies hold other line separators as tokens.
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"vocabulary {path} is not UTF-8 (byte {error.start})") from error
    tokens = [line.rstrip("\r") for line in lines]
    return tokens if tokens[-1] else tokens[:-1]


def is_lowercase(folder: pathlib.Path, path: pathlib.Path, tokens: Iterable[str]) -> bool:
    """Return whether text is lower-cased before it is looked up in this vocabulary.

    The first of these decides: `do_lower_case` in `tokenizer_config.json`; "uncased" or "cased"
    in the name of the vocabulary, then of its folder; whether a token other than the special
    ones has a capital letter.

    Args:
        folder: the checkpoint's folder.
        path: the vocabulary file.
        tokens: its tokens.

    Raises:
        ValueError: if `do_lower_case` is not a boolean.
    """
    settings = folder / "tokenizer_config.json"
    stated = read_json(settings).get("do_lower_case") if settings.is_file() else None
    if stated is not None:
        if type(stated) is not bool:
            raise ValueError(
                f"{settings} has do_lower_case={shown(stated)}; expected true or false"
            )
        return stated
    for name in (path.name, pathlib.Path(os.path.abspath(path)).parent.name):
        found = _CASE.search(name)
        if found:
            return found[1] is not None
    return all(token == token.lower() or _SPECIAL.fullmatch(token) for token in tokens)
