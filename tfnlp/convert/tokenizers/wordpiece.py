"""BERT's vocabulary file, and whether its text was lower-cased."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tfnlp.convert.formats.json_files import read_json, write_json
from tfnlp.text.lines import shown

if TYPE_CHECKING:
    from tfnlp.text import WordPieceTokenizer

_SPECIAL = re.compile(r"\[.*\]|<.*>")
_CASE = re.compile(r"(?<![a-z])(un)?cased(?![a-z])", re.IGNORECASE)


class FoundTokenizer(NamedTuple):
    """The tokenizer of a checkpoint.

    Attributes:
        make: function without arguments that returns it, or raises ValueError if there is none.
        path: file or folder of the vocabulary, or None.
        lowercase: whether text is lower-cased; None if that is unknown.
    """

    make: Callable[[], Any]
    path: str | None
    lowercase: bool | None = None


class TokenizerFiles(NamedTuple):
    """How a family's tokenizer is stored.

    Attributes:
        find: function of (folder, `vocab` or None, `lowercase` or None, the model's vocab_size,
            name of the loader for messages) to a `FoundTokenizer`.
    """

    find: Callable[..., FoundTokenizer]


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


def find_wordpiece(
    folder: pathlib.Path,
    vocab: str | os.PathLike | None,
    lowercase: bool | None,
    vocab_size: int,
    loader: str,
) -> FoundTokenizer:
    """Return the tokenizer of `vocab`, or of `vocab.txt` in the folder.

    Args:
        folder: the checkpoint's folder.
        vocab: the vocabulary, if it is elsewhere.
        lowercase: instead of the answer of `is_lowercase`.
        vocab_size: the model's.
        loader: the function that reads the checkpoint, for messages.

    Raises:
        FileNotFoundError: if `vocab` does not exist.
        ValueError: if the vocabulary is not UTF-8, or longer than `vocab_size`.
    """
    path = pathlib.Path(os.fspath(vocab)) if vocab is not None else folder / "vocab.txt"
    if vocab is None and not path.exists():
        return FoundTokenizer(functools.partial(_tokenizer, None, None, loader), None, lowercase)
    tokens = vocabulary_lines(path)
    if len(tokens) > vocab_size:
        raise ValueError(
            f"vocabulary {path} has {len(tokens)} tokens, but the model's vocab_size is "
            f"{vocab_size}; it belongs to another checkpoint"
        )
    if lowercase is None:
        lowercase = is_lowercase(folder, path, tokens)
    make = functools.partial(_tokenizer, str(path), lowercase, loader)
    return FoundTokenizer(make, str(path), lowercase)


def _tokenizer(vocabulary: str | None, lowercase: bool | None, loader: str) -> WordPieceTokenizer:
    from tfnlp.text import WordPieceTokenizer

    if vocabulary is None:
        raise ValueError(f"the checkpoint has no vocab.txt beside it; pass vocab= to {loader}")
    return WordPieceTokenizer(vocabulary, lowercase=lowercase)


def write_wordpiece(
    folder: str, vocabulary: str | os.PathLike, lowercase: bool, tokenizer_class: str
) -> None:
    """Write `vocab.txt` and `tokenizer_config.json`."""
    shutil.copyfile(vocabulary, os.path.join(folder, "vocab.txt"))
    settings = {"do_lower_case": lowercase, "tokenizer_class": tokenizer_class}
    write_json(os.path.join(folder, "tokenizer_config.json"), settings)


WORDPIECE = TokenizerFiles(find_wordpiece)
