"""Names of Hugging Face's GPT and GPT-2 checkpoints (transformers, models/openai, models/gpt2)."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Collection, Mapping
from typing import Any

from tfnlp.convert.gpt.config import read_config
from tfnlp.convert.heads.files import SPAN, TaskHead
from tfnlp.convert.mapping import Row, Shape
from tfnlp.convert.name_table import NameTable

LAYER = re.compile(r"h\.(\d+)\.")
CONFIGURATION = "config.json"
# by norm_first: GPT's, GPT-2's
TOKENS = {False: "tokens_embed.weight", True: "wte.weight"}
POSITIONS = {False: "positions_embed.weight", True: "wpe.weight"}
# The heads of fine-tuned models, by norm_first and the kind of output.
_GPT2_HEADS = {
    **{
        output: TaskHead("GPT2ForSequenceClassification", {"classifier": "score"})
        for output in ("class", "label", "score")
    },
    "tag": TaskHead("GPT2ForTokenClassification", {"classifier": "classifier"}),
    "span": TaskHead("GPT2ForQuestionAnswering", {SPAN: SPAN}),
}
_GPT1_HEADS = {
    output: TaskHead("OpenAIGPTForSequenceClassification", {"classifier": "score"})
    for output in ("class", "label", "score")
}
HEADS = {False: _GPT1_HEADS, True: _GPT2_HEADS}
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


def copies(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of the output table, which some files hold too, to that of the input's."""
    return {"lm_head.weight": TOKENS[config["norm_first"]]}


def stored_shape(name: str, shape: Shape) -> Shape:
    """Return the stored shape of a tensor.

    Kernels are `[in, out]` as in Keras: these two models do not use PyTorch's `Linear`.
    """
    return shape


def rows(config: Mapping[str, Any]) -> dict[str, Row]:
    """Return the table of weight path to `Row`."""
    norm_first = config["norm_first"]
    table = NameTable(".weight", ".bias", ".weight", ".bias")
    table.tensor("token_embedding/embeddings", TOKENS[norm_first])
    table.tensor("position_embedding/embeddings", POSITIONS[norm_first])
    for i in range(config["num_layers"]):
        path, name = f"layer_{i}", f"h.{i}"
        table.dense(f"{path}/attention/qkv", f"{name}.attn.c_attn")
        table.dense(f"{path}/attention/output", f"{name}.attn.c_proj")
        table.norm(f"{path}/attention_norm", f"{name}.ln_1")
        table.dense(f"{path}/intermediate", f"{name}.mlp.c_fc")
        table.dense(f"{path}/output", f"{name}.mlp.c_proj")
        table.norm(f"{path}/output_norm", f"{name}.ln_2")
    if norm_first:
        table.norm("final_norm", "ln_f")
    return table.rows
