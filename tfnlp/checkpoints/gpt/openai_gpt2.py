"""Names of OpenAI's TensorFlow GPT-2 checkpoints (openai/gpt-2, src/model.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfnlp.checkpoints.encoders.files import TensorNames
from tfnlp.checkpoints.mapping import Row
from tfnlp.checkpoints.name_table import NameTable


def block_rows(num_layers: int, prefix: str) -> dict[str, Row]:
    """Return the table of weight path to `Row` for the blocks.

    The order is that in which OpenAI's code makes them. GPT and GPT-2 have the same names.
    """
    table = NameTable("/g", "/b", "/w", "/b", convolution=True)
    for i in range(num_layers):
        path, name = f"layer_{i}", f"{prefix}h{i}"
        # [H, 3H], the last axis ordered by query, key and value, then heads, then columns, as here.
        table.dense(f"{path}/attention/qkv", f"{name}/attn/c_attn")
        table.dense(f"{path}/attention/output", f"{name}/attn/c_proj")
        table.norm(f"{path}/attention_norm", f"{name}/ln_1")
        table.dense(f"{path}/intermediate", f"{name}/mlp/c_fc")
        table.dense(f"{path}/output", f"{name}/mlp/c_proj")
        table.norm(f"{path}/output_norm", f"{name}/ln_2")
    return table.rows


def _rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    return {
        "position_embedding/embeddings": Row(("model/wpe",)),
        "token_embedding/embeddings": Row(("model/wte",)),
        **block_rows(config["num_layers"], "model/"),
        "final_norm/gamma": Row(("model/ln_f/g",)),
        "final_norm/beta": Row(("model/ln_f/b",)),
    }


OPENAI_GPT2 = TensorNames(
    rows=_rows,
    heads={},
    layer=re.compile(r"model/h(\d+)/"),
    beginning="model/",
    hint="'model/wte' (OpenAI's GPT-2)",
)
