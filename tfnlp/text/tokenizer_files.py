"""Which tokenizers the vocabulary files of a folder can be those of."""

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from tfnlp.text.byte_pair_files import read_bpe
from tfnlp.text.gpt2_tokenizer import RobertaTokenizer, has_roberta_tokens
from tfnlp.text.gpt_tokenizer import gpt_tokenizer
from tfnlp.text.sentencepiece import SentencePieceTokenizer, read_model
from tfnlp.text.wordpiece import WordPieceTokenizer, read_vocabulary


def tokenizer_candidates(folder: str, problems: list[str]) -> Iterator[Callable[[], Any]]:
    """Yield functions that make a tokenizer from files, the most special tokenizer first.

    The folder, such as the assets of a SavedModel, need not exist. `problems` gets the reasons why
    a file is no vocabulary.
    """
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if any(name.endswith(".json") for name in names):
        yield from _byte_pairs(folder, problems)
        return
    for name in names:
        path = os.path.join(folder, name)
        kinds = read_vocabulary, WordPieceTokenizer
        if name.endswith(".model"):
            kinds = read_model, SentencePieceTokenizer
        yield from _pieces(*kinds, path, problems)


def _byte_pairs(folder: str, problems: list[str]) -> Iterator[Callable[[], Any]]:
    """Yield what reads two files of tokens and merges."""
    pair = _read(read_bpe, folder, problems)
    if pair is not None and has_roberta_tokens(pair[0]):
        yield lambda: RobertaTokenizer(pair)
    if pair is not None:
        yield lambda: gpt_tokenizer(pair)


def _pieces(
    read: Callable[[str], Any], make: Callable[..., Any], path: str, problems: list[str]
) -> Iterator[Callable[[], Any]]:
    """Yield what reads a list of pieces; it does not say whether text is lower-cased."""
    pieces = _read(read, path, problems)
    if pieces is not None:
        for lowercase in (True, False):
            yield functools.partial(make, pieces, lowercase)


def _read(read: Callable[[str], Any], path: str, problems: list[str]) -> Any:
    try:
        return read(path)
    except (ValueError, OSError) as error:
        problems.append(str(error))
        return None
