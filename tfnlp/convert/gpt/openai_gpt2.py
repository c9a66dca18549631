"""Names of OpenAI's TensorFlow GPT-2 checkpoints (openai/gpt-2, src/model.py)."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any

from tfnlp.convert.gpt.config import read_hparams
from tfnlp.convert.mapping import Row, Shape
from tfnlp.convert.name_table import NameTable

LAYER = re.compile(r"model/h(\d+)/")
CONFIGURATION = "hparams.json"


def recognises(names: Collection[str]) -> bool:
    """Return whether these are names of a GPT-2."""
    return any(name in ("model/wte", "model/wpe") or LAYER.match(name) for name in names)


def canonical(name: str) -> str:
    """Return the name in the table below: OpenAI's names have one form only."""
    return name


def configuration(path: pathlib.Path, names: Collection[str]) -> dict[str, Any]:
    """Return the arguments of `gpt` that the configuration at `path` states."""
    return read_hparams(path)


def copies(config: Mapping[str, Any]) -> dict[str, str]:
    """Return no names: nothing is stored twice."""
    return {}


def stored_shape(name: str, shape: Shape) -> Shape:
    """Return the stored shape of a tensor.

    Kernels are those of convolutions of width 1, `[1, in, out]`.
    """
    return (1, *shape) if name.endswith("/w") else shape


def block_rows(num_layers: int, prefix: str) -> dict[str, Row]:
    """Return the table of weight path to `Row` for the blocks.

    The order is that in which OpenAI's code makes them. GPT and GPT-2 have the same names.
    """
    table = NameTable("/g", "/b", "/w", "/b")
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


def rows(config: Mapping[str, Any]) -> dict[str, Row]:
    """Return the table of weight path to `Row`."""
    return {
        "position_embedding/embeddings": Row(("model/wpe",)),
        "token_embedding/embeddings": Row(("model/wte",)),
        **block_rows(config["num_layers"], "model/"),
        "final_norm/gamma": Row(("model/ln_f/g",)),
        "final_norm/beta": Row(("model/ln_f/b",)),
    }
