"""RoBERTa in keras-hub: `RobertaBackbone`, `RobertaMaskedLM`, `RobertaTokenizer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfnlp.convert.encoders.config import config_of
from tfnlp.convert.keras_hub.counterpart import (
    Counterpart,
    block,
    masked_lm,
    masked_lm_constants,
    masked_lm_models,
    names,
)
from tfnlp.convert.keras_hub.gpt2 import byte_pairs, write_tokenizer
from tfnlp.convert.mapping import Row
from tfnlp.convert.roberta import ROBERTA_FILES
from tfnlp.models import roberta, roberta_pretrainer

_HEAD = dict(activation="gelu", norm_epsilon=1e-5)
_POSITIONS, _SEGMENTS = "position_embedding/embeddings", "segment_embedding/embeddings"
_THEIR_POSITIONS = "embeddings/position_embedding/embeddings"
_OFFSET = 2  # rows before that of the first token, which keras-hub does not have


def rows(arguments: dict[str, Any], head: bool) -> dict[str, Row]:
    """Return the table of weight path to keras-hub's variables."""
    table = names()
    table.tensor("token_embedding/embeddings", "embeddings/token_embedding/embeddings")
    table.norm("embedding_norm", "embeddings_layer_norm")
    for i in range(arguments["num_layers"]):
        block(table, f"layer_{i}", f"transformer_layer_{i}")
    if head:
        masked_lm(table)
    return table.rows


def arguments_of(model: keras.Model) -> dict[str, Any]:
    """Return the arguments of the encoder in `model`, without the pooler, which is left out.

    Raises:
        ValueError: if `model` is no RoBERTa.
    """
    arguments = config_of(ROBERTA_FILES, model)
    if model.get_layer("position_embedding").offset != _OFFSET:
        raise ValueError(f"model {model.name!r} is not a RoBERTa")
    return arguments


def read(variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the table of positions with the rows that are not read, and a segment of zeros."""
    table = np.asarray(variables[_THEIR_POSITIONS].numpy())  # [P, H]
    return {
        _POSITIONS: np.pad(table, ((_OFFSET, 0), (0, 0))),
        _SEGMENTS: np.zeros_like(table[:1]),
    }


def write(weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return keras-hub's positions: without the first rows, the vector of the segment added."""
    positions, segments = (np.asarray(weights[x].numpy()) for x in (_POSITIONS, _SEGMENTS))
    return {_THEIR_POSITIONS: positions[_OFFSET:] + segments}


def read_tokenizer(tokenizer: Any) -> Any:
    """Return tfnlp's tokenizer with the vocabulary of keras-hub's."""
    from tfnlp.text import RobertaTokenizer

    return RobertaTokenizer(byte_pairs(tokenizer))


ROBERTA = Counterpart(
    family="roberta",
    backbone="RobertaBackbone",
    pretrainer="RobertaMaskedLM",
    preprocessor="RobertaMaskedLMPreprocessor",
    tokenizer="RobertaTokenizer",
    constants={"activation": "gelu", "norm_epsilon": 1e-5},
    build=masked_lm_models(roberta, roberta_pretrainer, **_HEAD),
    rows=rows,
    arguments=arguments_of,
    read_tokenizer=read_tokenizer,
    write_tokenizer=write_tokenizer,
    head_constants=lambda model: masked_lm_constants(model, **_HEAD),
    made=(_POSITIONS, _SEGMENTS),
    read=read,
    write=write,
)
