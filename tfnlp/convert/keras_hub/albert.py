"""ALBERT in keras-hub: `AlbertBackbone`, `AlbertMaskedLM`, `AlbertTokenizer`."""

from __future__ import annotations

import functools
from typing import Any

from tfnlp.convert.albert import ALBERT_FILES
from tfnlp.convert.encoders.config import config_of
from tfnlp.convert.keras_hub.counterpart import (
    SIZES,
    Counterpart,
    block,
    masked_lm,
    masked_lm_constants,
    masked_lm_models,
    names,
)
from tfnlp.convert.mapping import Row
from tfnlp.models import albert, albert_pretrainer

_HEAD = dict(activation="gelu_tanh", norm_epsilon=1e-5)


def rows(arguments: dict[str, Any], head: bool) -> dict[str, Row]:
    """Return the table of weight path to keras-hub's variables."""
    table = names()
    for kind in ("token", "position", "segment"):
        table.tensor(f"{kind}_embedding/embeddings", f"{kind}_embedding/embeddings")
    table.norm("embedding_norm", "embeddings_layer_norm")
    table.dense("embedding_projection", "embedding_projection")
    block(table, "shared_layer", "group_0_inner_layer_0")
    if arguments["pooler"]:
        table.dense("pooler/dense", "pooled_dense")
    if head:
        masked_lm(table)
    return table.rows


def read_tokenizer(tokenizer: Any) -> Any:
    """Return tfnlp's tokenizer with the sentencepiece model of keras-hub's."""
    from tfnlp.text import SentencePieceTokenizer

    return SentencePieceTokenizer(tokenizer.proto, lowercase=is_lowercase(tokenizer))


def is_lowercase(tokenizer: Any) -> bool:
    """Return whether no piece but special ones has a capital letter."""
    pieces = (p for p in tokenizer.get_vocabulary() if not p.startswith(("[", "<")))
    return all(piece == piece.lower() for piece in pieces)


def write_tokenizer(tokenizer: Any, make: Any) -> Any:
    """Return keras-hub's tokenizer with the sentencepiece model of tfnlp's."""
    return make(tokenizer.model)


ALBERT = Counterpart(
    family="albert",
    backbone="AlbertBackbone",
    pretrainer="AlbertMaskedLM",
    preprocessor="AlbertMaskedLMPreprocessor",
    tokenizer="AlbertTokenizer",
    sizes={**SIZES, "num_segments": "num_segments", "embedding_dim": "embedding_size"},
    fixed={"num_groups": 1, "num_inner_repetitions": 1},
    constants={"activation": "gelu_tanh", "norm_epsilon": 1e-12},
    build=masked_lm_models(albert, albert_pretrainer, sentence_order=False, **_HEAD),
    rows=rows,
    arguments=functools.partial(config_of, ALBERT_FILES),
    read_tokenizer=read_tokenizer,
    write_tokenizer=write_tokenizer,
    head_constants=lambda model: masked_lm_constants(model, **_HEAD),
    lowercase=is_lowercase,
)
