"""DistilBERT in keras-hub: `DistilBertBackbone`, `DistilBertMaskedLM`, `DistilBertTokenizer`."""

from __future__ import annotations

import functools
from typing import Any

from tfnlp.convert.distilbert import DISTILBERT_FILES
from tfnlp.convert.encoders.config import config_of
from tfnlp.convert.keras_hub.bert import read_tokenizer, write_tokenizer
from tfnlp.convert.keras_hub.counterpart import (
    Counterpart,
    block,
    masked_lm,
    masked_lm_constants,
    masked_lm_models,
    names,
)
from tfnlp.convert.mapping import Row
from tfnlp.models import bert_pretrainer, distilbert

_HEAD = dict(activation="gelu", norm_epsilon=1e-5)
_TABLES = "token_and_position_embedding"


def rows(arguments: dict[str, Any], head: bool) -> dict[str, Row]:
    """Return the table of weight path to keras-hub's variables."""
    table = names()
    for kind in ("token", "position"):
        table.tensor(f"{kind}_embedding/embeddings", f"{_TABLES}/{kind}_embedding/embeddings")
    table.norm("embedding_norm", "embeddings_layer_norm")
    for i in range(arguments["num_layers"]):
        block(table, f"layer_{i}", f"transformer_layer_{i}")
    if head:
        masked_lm(table)
    return table.rows


DISTILBERT = Counterpart(
    family="distilbert",
    backbone="DistilBertBackbone",
    pretrainer="DistilBertMaskedLM",
    preprocessor="DistilBertMaskedLMPreprocessor",
    tokenizer="DistilBertTokenizer",
    constants={"activation": "gelu", "norm_epsilon": 1e-12},
    build=masked_lm_models(
        distilbert, bert_pretrainer, next_sentence=False, name="distilbert_pretrainer", **_HEAD
    ),
    rows=rows,
    arguments=functools.partial(config_of, DISTILBERT_FILES),
    read_tokenizer=read_tokenizer,
    write_tokenizer=write_tokenizer,
    head_constants=lambda model: masked_lm_constants(model, **_HEAD),
    lowercase=lambda tokenizer: tokenizer.lowercase,
)
