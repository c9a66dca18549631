"""Names of Hugging Face's GPT and GPT-2 checkpoints (transformers, models/openai, models/gpt2)."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any

from tfnlp.convert.gpt.config import read_config
from tfnlp.convert.mapping import Row, Shape

LAYER = re.compile(r"h\.(\d+)\.")
CONFIGURATION = "config.json"
# by norm_first: GPT's, GPT-2's
TOKENS = {False: "tokens_embed.weight", True: "wte.weight"}
POSITIONS = {False: "positions_embed.weight", True: "wpe.weight"}
# Some versions store the table of tokens twice, others once, under either name.
HEAD = "lm_head.weight"
_BUFFERS = re.compile(r"position_ids|h\.\d+\.attn\.(bias|masked_bias)")


def recognises(names: Collection[str]) -> bool:
    """Return whether these are names of a GPT or a GPT-2."""
    return _is_norm_first(names) is not None


def _is_norm_first(names: Collection[str]) -> bool | None:
    for norm_first in (False, True):
        if TOKENS[norm_first] in names or POSITIONS[norm_first] in names:
            return norm_first
    return None


def canonical(name: str) -> str | None:
    """Return the name in the table below (no `transformer.`).

    None for buffers: the causal mask and the numbers of the positions.
    """
    name = name.removeprefix("transformer.")
    return None if _BUFFERS.fullmatch(name) else name


def configuration(path: pathlib.Path, names: Collection[str]) -> dict[str, Any]:
    """Return the arguments of `gpt` that the configuration at `path` states."""
    return read_config(path, _is_norm_first(names))


def stored_shape(name: str, shape: Shape) -> Shape:
    """Return the stored shape of a tensor.

    Kernels are `[in, out]` as in Keras: these two models do not use PyTorch's `Linear`.
    """
    return shape


def rows(config: Mapping[str, Any]) -> dict[str, Row]:
    """Return the table of weight path to `Row`."""
    norm_first = config["norm_first"]
    table = {
        "token_embedding/embeddings": Row((TOKENS[norm_first],)),
        "position_embedding/embeddings": Row((POSITIONS[norm_first],)),
    }

    def norm(path: str, name: str) -> None:
        table[f"{path}/gamma"] = Row((f"{name}.weight",))
        table[f"{path}/beta"] = Row((f"{name}.bias",))

    def dense(path: str, name: str) -> None:
        table[f"{path}/kernel"] = Row((f"{name}.weight",))
        table[f"{path}/bias"] = Row((f"{name}.bias",))

    for i in range(config["num_layers"]):
        path, name = f"layer_{i}", f"h.{i}"
        dense(f"{path}/attention/qkv", f"{name}.attn.c_attn")
        dense(f"{path}/attention/output", f"{name}.attn.c_proj")
        norm(f"{path}/attention_norm", f"{name}.ln_1")
        dense(f"{path}/intermediate", f"{name}.mlp.c_fc")
        dense(f"{path}/output", f"{name}.mlp.c_proj")
        norm(f"{path}/output_norm", f"{name}.ln_2")
    if norm_first:
        norm("final_norm", "ln_f")
    return table
