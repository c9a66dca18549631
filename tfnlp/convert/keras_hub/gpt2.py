"""GPT-2 in keras-hub: `GPT2Backbone`, `GPT2CausalLM`, `GPT2Tokenizer`."""

from __future__ import annotations

from typing import Any

import keras

from tfnlp.convert.gpt.config import config_of
from tfnlp.convert.keras_hub.counterpart import Counterpart, block, names
from tfnlp.convert.mapping import Row
from tfnlp.models import gpt, gpt_pretrainer


def build(
    arguments: dict[str, Any], head: bool, dtype: Any
) -> tuple[keras.Model, keras.Model | None]:
    """Return decoder and pretrainer, whose head has no weights of its own."""
    encoder = gpt(**arguments, dtype=dtype)
    return encoder, gpt_pretrainer(encoder)


def rows(arguments: dict[str, Any], head: bool) -> dict[str, Row]:
    """Return the table of weight path to keras-hub's variables."""
    table = names()
    for kind in ("token", "position"):
        table.tensor(f"{kind}_embedding/embeddings", f"{kind}_embedding/embeddings")
    for i in range(arguments["num_layers"]):
        block(table, f"layer_{i}", f"transformer_layer_{i}", "self_attention")
    table.norm("final_norm", "layer_norm")
    return table.rows


def byte_pairs(tokenizer: Any) -> tuple[list[str | None], list[tuple[str, str]]]:
    """Return the tokens by id, None where an id has none, and the merges of a tokenizer."""
    tokens: list[str | None] = [None] * (max(tokenizer.vocabulary.values()) + 1)
    for token, number in tokenizer.vocabulary.items():
        tokens[number] = token
    lines = (line for line in tokenizer.merges if not line.startswith("#version:"))
    return tokens, [tuple(line.split(" ")) for line in lines]


def read_tokenizer(tokenizer: Any) -> Any:
    """Return tfnlp's tokenizer with the vocabulary of keras-hub's."""
    from tfnlp.text import GPT2Tokenizer

    return GPT2Tokenizer(byte_pairs(tokenizer))


def write_tokenizer(tokenizer: Any, make: Any) -> Any:
    """Return keras-hub's tokenizer with the vocabulary of tfnlp's."""
    ids = {token: i for i, token in enumerate(tokenizer.vocabulary) if token is not None}
    return make(ids, [" ".join(pair) for pair in tokenizer.merges])


GPT2 = Counterpart(
    family="gpt",
    backbone="GPT2Backbone",
    pretrainer="GPT2CausalLM",
    preprocessor="GPT2CausalLMPreprocessor",
    tokenizer="GPT2Tokenizer",
    constants={"norm_first": True, "activation": "gelu_tanh", "norm_epsilon": 1e-5},
    build=build,
    rows=rows,
    arguments=config_of,
    read_tokenizer=read_tokenizer,
    write_tokenizer=write_tokenizer,
    head="lm_logits",
)
