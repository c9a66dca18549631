"""BERT in keras-hub: `BertBackbone`, `BertMaskedLM`, `BertTokenizer`."""

from __future__ import annotations

import functools
from typing import Any

from tfnlp.convert.bert import BERT_FILES
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
from tfnlp.models import bert, bert_pretrainer

# Of the masked-LM head; the encoder has the tanh form and 1e-12.
_HEAD = dict(activation="gelu", norm_epsilon=1e-5)


def rows(arguments: dict[str, Any], head: bool) -> dict[str, Row]:
    """Return the table of weight path to keras-hub's variables."""
    table = names()
    for kind in ("token", "position", "segment"):
        table.tensor(f"{kind}_embedding/embeddings", f"{kind}_embedding/embeddings")
    table.norm("embedding_norm", "embeddings_layer_norm")
    for i in range(arguments["num_layers"]):
        block(table, f"layer_{i}", f"transformer_layer_{i}")
    if arguments["pooler"]:
        table.dense("pooler/dense", "pooled_dense")
    if head:
        masked_lm(table)
    return table.rows


def read_tokenizer(tokenizer: Any) -> Any:
    """Return tfnlp's tokenizer with the vocabulary of keras-hub's."""
    from tfnlp.text import WordPieceTokenizer

    return WordPieceTokenizer(list(tokenizer.get_vocabulary()), lowercase=tokenizer.lowercase)


def write_tokenizer(tokenizer: Any, make: Any) -> Any:
    """Return keras-hub's tokenizer with the vocabulary of tfnlp's."""
    lowercase = tokenizer.lowercase
    return make(tokenizer.vocabulary, lowercase=lowercase, strip_accents=lowercase)


BERT = Counterpart(
    family="bert",
    backbone="BertBackbone",
    pretrainer="BertMaskedLM",
    preprocessor="BertMaskedLMPreprocessor",
    tokenizer="BertTokenizer",
    sizes={**SIZES, "num_segments": "num_segments"},
    constants={"activation": "gelu_tanh", "norm_epsilon": 1e-12},
    build=masked_lm_models(bert, bert_pretrainer, next_sentence=False, **_HEAD),
    rows=rows,
    arguments=functools.partial(config_of, BERT_FILES),
    read_tokenizer=read_tokenizer,
    write_tokenizer=write_tokenizer,
    head_constants=lambda model: masked_lm_constants(model, **_HEAD),
    lowercase=lambda tokenizer: tokenizer.lowercase,
)
