"""BERT's vocabulary file, and whether its text was lower-cased."""

from __future__ import annotations

import functools
import os
import pathlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.tokenizers.files import FoundTokenizer, TokenizerFiles, check_size, refused
from tfnlp.checkpoints.tokenizers.tokenizer_json import (
    CONFIG,
    NAME,
    find_pipeline,
    read_tokenizer_json,
    write_config,
    write_pipeline,
)
from tfnlp.files import write_text
from tfnlp.text import PipelineTokenizer, WordPieceTokenizer
from tfnlp.text.lines import shown
from tfnlp.text.wordpiece import CLS, MAX_WORD_CHARS, SEP, SPECIAL_TOKENS, UNK

_VOCABULARY = "vocab.txt"
_SPECIAL = re.compile(r"\[.*\]|<.*>")
_CASE = re.compile(r"(?<![a-z])(un)?cased(?![a-z])", re.IGNORECASE)


def vocabulary_lines(path: pathlib.Path) -> list[str]:
    """Return the lines of a `vocab.txt`; the tokenizer checks whether they make a vocabulary."""
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
    """Return the tokenizer of `vocab.txt` or `tokenizer.json`: see `TokenizerFiles`.

    A `tokenizer.json` is executed as it stands, also beside a `vocab.txt` that it does not belong
    to in the usual way.
    """
    path = pathlib.Path(os.fspath(vocab)) if vocab is not None else folder / _VOCABULARY
    if vocab is None and not (path.exists() and _is_usual(folder / NAME)):
        path = folder / NAME
        if not path.exists():
            absent = f"the checkpoint has no {_VOCABULARY} or {NAME} beside it"
            return refused(f"{absent}; pass vocab= to {loader}", lowercase=lowercase)
    if path.suffix == ".json" and path.is_file():
        return _of_json(path, lowercase, vocab_size)
    tokens = vocabulary_lines(path)
    check_size(str(path), len(tokens), vocab_size)
    if lowercase is None:
        lowercase = is_lowercase(folder, path, tokens)
    return _found(str(path), path, lowercase)


def _of_json(path: pathlib.Path, lowercase: bool | None, vocab_size: int) -> FoundTokenizer:
    found = find_pipeline(path, vocab_size)
    if lowercase is None or lowercase == found.lowercase:
        return found
    other = read_tokenizer_json(path)
    try:
        other.check_wordpieces()
    except ValueError as error:
        return refused(str(error), str(path), lowercase)
    return _found(other.tokens, path, lowercase)


def _is_usual(path: pathlib.Path) -> bool:
    """Return whether there is no `tokenizer.json`, or one that BERT's own tokenizer stands for."""
    if not path.is_file():
        return True
    try:
        read_tokenizer_json(path).check_wordpieces()
    except ValueError:
        return False
    return True


def _found(vocabulary: str | list[str], path: pathlib.Path, lowercase: bool) -> FoundTokenizer:
    make = functools.partial(WordPieceTokenizer, vocabulary, lowercase=lowercase)
    return FoundTokenizer(make, str(path), lowercase)


class WordPieces(NamedTuple):
    """What is written of a WordPiece tokenizer."""

    vocabulary: list[str]
    lowercase: bool

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return len(self.vocabulary)


def write_wordpiece(folder: str, tokenizer: Any, max_length: int) -> None:
    """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`."""
    if isinstance(tokenizer, PipelineTokenizer):
        return write_pipeline(folder, tokenizer, max_length)
    tokens, lowercase = tokenizer.vocabulary, tokenizer.lowercase
    write_text(os.path.join(folder, _VOCABULARY), "".join(f"{token}\n" for token in tokens))
    _write_json(folder, tokens, lowercase, getattr(tokenizer, "marks", []))
    write_config(folder, "BertTokenizer", max_length, {"do_lower_case": lowercase})


def _write_json(folder: str, tokens: list[str], lowercase: bool, marks: list[str]) -> None:
    """Write the `tokenizer.json` of a BERT; none if the vocabulary lacks a special token."""
    ids = {token: i for i, token in enumerate(tokens)}
    if any(token not in ids for token in SPECIAL_TOKENS) or len(ids) != len(tokens):
        return
    model = models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARS)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(CLS, ids[CLS]), (SEP, ids[SEP])],
    )
    tokenizer.add_special_tokens([*dict.fromkeys([*SPECIAL_TOKENS, *marks])])
    tokenizer.save(os.path.join(folder, NAME))


WORDPIECE = TokenizerFiles(find_wordpiece, write_wordpiece, (_VOCABULARY, NAME, CONFIG))
