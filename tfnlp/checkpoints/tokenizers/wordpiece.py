"""BERT's vocabulary file, and whether its text was lower-cased."""

from __future__ import annotations

import functools
import os
import pathlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.tokenizers.files import (
    FoundTokenizer,
    TokenizerFiles,
    check_size,
    is_usual,
    put_around,
    refused,
    write_config,
)
from tfnlp.checkpoints.tokenizers.tokenizer_json import NAME, TokenizerJson, read_tokenizer_json
from tfnlp.files import write_text
from tfnlp.text import WordPieceTokenizer
from tfnlp.text.lines import read_lines, shown
from tfnlp.text.pipeline import CONFIG
from tfnlp.text.wordpiece import CLS, MAX_WORD_CHARS, SEP, SPECIAL_TOKENS, UNK

_VOCABULARY = "vocab.txt"
_SPECIAL = re.compile(r"\[.*\]|<.*>")
_CASE = re.compile(r"(?<![a-z])(un)?cased(?![a-z])", re.IGNORECASE)


class WordPieces(NamedTuple):
    """What is written of a WordPiece tokenizer."""

    vocabulary: list[str]
    lowercase: bool
    marks: tuple[str, ...] = ()

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return len(self.vocabulary)


class WordPieceFiles(TokenizerFiles):
    """`vocab.txt`, `tokenizer.json` and `tokenizer_config.json`.

    A `tokenizer.json` is executed as it stands, also beside a `vocab.txt` that it does not belong
    to in the usual way.
    """

    own = (_VOCABULARY,)

    def find(
        self,
        folder: pathlib.Path,
        vocab: str | os.PathLike | None,
        lowercase: bool | None,
        vocab_size: int,
    ) -> FoundTokenizer:
        path = pathlib.Path(os.fspath(vocab)) if vocab is not None else folder / _VOCABULARY
        usual = vocab is not None or (
            path.exists() and is_usual(folder / NAME, TokenizerJson.check_wordpieces)
        )
        if not usual:
            path = folder / NAME
        if usual and not (path.suffix == ".json" and path.is_file()):
            tokens = read_lines(path, "vocabulary")
            check_size(str(path), len(tokens), vocab_size)
            if lowercase is None:
                lowercase = is_lowercase(folder, path, tokens)
            return _found(str(path), path, lowercase)
        found = super().find(folder, vocab, None, vocab_size)
        if found.path is None or lowercase in (None, found.lowercase):
            return found if lowercase is None else found._replace(lowercase=lowercase)
        try:
            other = read_tokenizer_json(path)
            other.check_wordpieces()
        except ValueError as error:
            return refused(str(error), str(path), lowercase)
        return _found(other.tokens, path, lowercase)

    def write_own(self, folder: str, tokenizer: Any, max_length: int) -> None:
        tokens, lowercase = tokenizer.vocabulary, tokenizer.lowercase
        write_text(os.path.join(folder, _VOCABULARY), "".join(f"{token}\n" for token in tokens))
        write_config(folder, "BertTokenizer", max_length, {"do_lower_case": lowercase})
        ids = {token: i for i, token in enumerate(tokens)}
        if any(token not in ids for token in SPECIAL_TOKENS) or len(ids) != len(tokens):
            return  # no tokenizer.json can say it
        model = models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=MAX_WORD_CHARS)
        made = Tokenizer(model)
        made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        put_around(made, CLS, SEP)
        made.add_special_tokens([*dict.fromkeys([*SPECIAL_TOKENS, *tokenizer.marks])])
        made.save(os.path.join(folder, NAME))


def _found(vocabulary: str | list[str], path: pathlib.Path, lowercase: bool) -> FoundTokenizer:
    make = functools.partial(WordPieceTokenizer, vocabulary, lowercase=lowercase)
    return FoundTokenizer(make, str(path), lowercase)


def is_lowercase(folder: pathlib.Path, path: pathlib.Path, tokens: Iterable[str]) -> bool:
    """Return whether text is lower-cased before it is looked up in this vocabulary.

    The first of these decides: `do_lower_case` in `tokenizer_config.json`; "uncased" or "cased"
    in the name of the vocabulary, then of its folder; whether a token other than the special
    ones has a capital letter.
    """
    settings = folder / CONFIG
    stated = read_json(settings).get("do_lower_case") if settings.is_file() else None
    if type(stated) is bool:
        return stated
    if stated is not None:
        raise ValueError(f"{settings} has do_lower_case={shown(stated)}; expected true or false")
    for name in (path.name, pathlib.Path(os.path.abspath(path)).parent.name):
        found = _CASE.search(name)
        if found:
            return found[1] is not None
    return all(token == token.lower() or _SPECIAL.fullmatch(token) for token in tokens)


WORDPIECE = WordPieceFiles()
