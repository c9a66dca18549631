"""RoBERTa's pretraining text: masked windows of whole sentences, byte-level pairs."""

import functools
import os
from collections.abc import Iterable
from typing import Any

from tfnlp.families.encoders import encoder_sizes
from tfnlp.families.masked_text import MaskedText
from tfnlp.families.preparation import BPE_VOCABULARY, write_bpe_folder
from tfnlp.families.subwords import Subwords


def _read(path: str) -> tuple:
    from tfnlp.text import read_bpe

    return read_bpe(path)


def _learn(texts: Iterable[str], config: Any) -> tuple:
    from tfnlp.text import train_roberta_bpe

    return train_roberta_bpe(texts, config.vocab_size)


def _make(pair: tuple) -> Any:
    from tfnlp.text import RobertaTokenizer

    return RobertaTokenizer(pair)


def restore_tokenizer(folder: str, lowercase: bool | None) -> Any:
    """Return the tokenizer of a run's folder."""
    from tfnlp.text import RobertaTokenizer

    return RobertaTokenizer(os.path.join(folder, BPE_VOCABULARY))


BYTE_PAIRS = Subwords(
    kind="roberta byte pairs",
    read=_read,
    write=write_bpe_folder,
    learn=_learn,
    decides=lambda config: [config.vocab_size],
    make=_make,
    settings=lambda config: {},
    tokens=lambda tokenizer: (tokenizer.vocabulary, tokenizer.merges),
    name=BPE_VOCABULARY,
)


ROBERTA_TEXT = MaskedText(
    title="RoBERTa",
    subwords=BYTE_PAIRS,
    second=None,
    sizes=functools.partial(encoder_sizes, "roberta"),
)
