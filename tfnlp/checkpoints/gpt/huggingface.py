"""Names of Hugging Face's GPT and GPT-2 checkpoints (transformers, models/openai, models/gpt2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfnlp.checkpoints.encoders.files import TensorNames
from tfnlp.checkpoints.heads.files import SPAN, TaskHead
from tfnlp.checkpoints.mapping import Row
from tfnlp.checkpoints.name_table import NameTable

CONFIGURATION = "config.json"
# The heads of fine-tuned models, by norm_first and the kind of output.
_TEXTS = ("class", "label", "score")
HEADS = {
    False: dict.fromkeys(
        _TEXTS,
        TaskHead("OpenAIGPTForSequenceClassification", {"classifier": "score"}, biased=False),
    ),
    True: {
        **dict.fromkeys(
            _TEXTS, TaskHead("GPT2ForSequenceClassification", {"classifier": "score"}, biased=False)
        ),
        "tag": TaskHead("GPT2ForTokenClassification", {"classifier": "classifier"}),
        "span": TaskHead("GPT2ForQuestionAnswering", {SPAN: SPAN}, size=2),
    },
}


def rows(config: Mapping[str, Any], heads: frozenset[str] = frozenset()) -> dict[str, Row]:
    """Return the table of weight path to `Row`; the head of language models has no weights.

    Kernels are `[in, out]` as in Keras: these two models do not use PyTorch's `Linear`.
    """
    tokens, positions = ("wte", "wpe") if config["norm_first"] else _GPT1_TABLES
    table = NameTable(".weight", ".bias", ".weight", ".bias")
    table.tensor("token_embedding/embeddings", f"{tokens}.weight")
    table.tensor("position_embedding/embeddings", f"{positions}.weight")
    for i in range(config["num_layers"]):
        path, name = f"layer_{i}", f"h.{i}"
        table.dense(f"{path}/attention/qkv", f"{name}.attn.c_attn")
        table.dense(f"{path}/attention/output", f"{name}.attn.c_proj")
        table.norm(f"{path}/attention_norm", f"{name}.ln_1")
        table.dense(f"{path}/intermediate", f"{name}.mlp.c_fc")
        table.dense(f"{path}/output", f"{name}.mlp.c_proj")
        table.norm(f"{path}/output_norm", f"{name}.ln_2")
    if config["norm_first"]:
        table.norm("final_norm", "ln_f")
    return table.rows


def _names(tokens: str, positions: str, title: str) -> TensorNames:
    return TensorNames(
        rows=rows,
        heads={},
        layer=re.compile(r"h\.(\d+)\."),
        beginning=(f"{tokens}.", f"{positions}."),
        base="transformer.",
        # Some files hold the table of the outputs too.
        copies={"lm_head.weight": f"{tokens}.weight"},
        # The causal mask and the numbers of the positions.
        buffers=re.compile(r"position_ids|h\.\d+\.attn\.(bias|masked_bias)"),
        hint=f"'{tokens}.weight' (Hugging Face's {title})",
    )


_GPT1_TABLES = "tokens_embed", "positions_embed"
NAMES = {False: _names(*_GPT1_TABLES, "GPT"), True: _names("wte", "wpe", "GPT-2")}  # by norm_first
