"""Names that Hugging Face's encoders have in common with its BERT (modeling_bert.py)."""

from __future__ import annotations

import re

from tfnlp.checkpoints.name_table import NameTable

BERT_LAYER = re.compile(r"encoder\.layer\.(\d+)\.")
LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def bert_embeddings(table: NameTable, segments: bool = True) -> None:
    """Add the tables of tokens, positions and segments, and the layer norm of their sum."""
    kinds = {"token": "word", "position": "position", "segment": "token_type"}
    for ours, theirs in kinds.items():
        if segments or ours != "segment":
            path = f"{ours}_embedding/embeddings"
            table.tensor(path, f"embeddings.{theirs}_embeddings.weight")
    table.norm("embedding_norm", "embeddings.LayerNorm")


def bert_layers(table: NameTable, num_layers: int) -> None:
    """Add the Transformer's blocks."""
    for i in range(num_layers):
        path, name = f"layer_{i}", f"encoder.layer.{i}"
        attention = f"{name}.attention.self"
        parts = (f"{attention}.{part}" for part in ("query", "key", "value"))
        table.dense(f"{path}/attention/qkv", *parts)
        table.dense(f"{path}/attention/output", f"{name}.attention.output.dense")
        table.norm(f"{path}/attention_norm", f"{name}.attention.output.LayerNorm")
        table.dense(f"{path}/intermediate", f"{name}.intermediate.dense")
        table.dense(f"{path}/output", f"{name}.output.dense")
        table.norm(f"{path}/output_norm", f"{name}.output.LayerNorm")
