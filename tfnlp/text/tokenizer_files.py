"""Which tokenizers the vocabulary files of a folder can be those of."""

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from tfnlp.text.byte_pair_files import read_bpe
from tfnlp.text.gpt_tokenizers import ROBERTA_TOKENS, RobertaTokenizer, gpt_tokenizer
from tfnlp.text.pipeline import FILE, PipelineTokenizer
from tfnlp.text.sentencepiece import SentencePieceTokenizer, read_model
from tfnlp.text.wordpiece import WordPieceTokenizer, read_vocabulary


def tokenizer_candidates(folder: str, problems: list[str]) -> Iterator[Callable[[], Any]]:
    """Yield functions that make a tokenizer from files, the most special tokenizer first.

    The folder, such as the assets of a SavedModel, need not exist. `problems` gets the reasons why
    a file is no vocabulary.
    """

    def contents(read: Callable[[str], Any], path: str) -> Any:
        try:
            return read(path)
        except (ValueError, OSError) as error:
            problems.append(str(error))
            return None

    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if FILE in names:
        yield functools.partial(PipelineTokenizer.read, folder)
        return
    if any(name.endswith(".json") for name in names):  # two files of tokens and merges
        pair = contents(read_bpe, folder)
        if pair is not None and set(ROBERTA_TOKENS) <= set(pair[0]):
            yield lambda: RobertaTokenizer(pair)
        if pair is not None:
            yield lambda: gpt_tokenizer(pair)
        return
    for name in names:
        read, make = read_vocabulary, WordPieceTokenizer
        if name.endswith(".model"):
            read, make = read_model, SentencePieceTokenizer
        pieces = contents(read, os.path.join(folder, name))
        if pieces is not None:  # they do not say whether text is lower-cased
            yield from (functools.partial(make, pieces, lowercase) for lowercase in (True, False))
