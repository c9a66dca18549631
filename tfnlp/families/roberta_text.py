"""RoBERTa's pretraining text: masked windows of whole sentences, byte-level pairs."""

import os
from collections.abc import Iterable
from typing import Any

from tfnlp.families.masked_text import MaskedText, sizes_of_config
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


def _sizes(config: Any, before: Any) -> dict[str, Any]:
    from tfnlp import models
    from tfnlp.families.roberta import SIZES

    old = None if before is None else {**before.config}
    sizes = sizes_of_config(config, getattr(models, SIZES[config.size]), old)
    sizes.pop("vocab_size", None)  # that of the tokenizer, or of the model to go on from
    return sizes if before is None else {**sizes, "vocab_size": before.config["vocab_size"]}


def _heads(config: Any, before: Any, batches: Any) -> dict[str, Any]:
    """Return the arguments of `roberta_pretrainer`."""
    if before is None:
        return {"initializer_range": config.initializer_range}
    head = before.pretrainer.get_layer("masked_lm_head")
    return {
        "activation": head.activation,
        "norm_epsilon": head.norm_epsilon,
        "initializer_range": before.encoder.get_layer("token_embedding").initializer.stddev,
    }


ROBERTA_TEXT = MaskedText(
    title="RoBERTa", subwords=BYTE_PAIRS, second=None, sizes=_sizes, heads=_heads
)
