"""Names of Hugging Face's BERT checkpoints (transformers, models/bert/modeling_bert.py)."""

from __future__ import annotations

import re

from tfnlp.convert.mapping import Row

LAYER = re.compile(r"encoder\.layer\.(\d+)\.")
POOLER, MASKED_LM, NEXT_SENTENCE = "pooler.", "cls.predictions.", "cls.seq_relationship."
PREFIX = "embeddings."

# Some versions store these tensors twice, others once, under either name.
COPIES = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
_LEGACY = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def canonical(name: str) -> str | None:
    """Return the name in the table below (no `bert.`, `gamma` or `beta`); None for buffers."""
    name = name.removeprefix("bert.")
    for old, new in _LEGACY.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return None if name in _BUFFERS else name


def rows(num_layers: int, pooler: bool, masked_lm: bool, next_sentence: bool) -> dict[str, Row]:
    """Return the table of weight path to `Row`.

    PyTorch's kernels are `[out, in]`, the transpose of Keras's.
    """
    table = {
        "token_embedding/embeddings": Row(("embeddings.word_embeddings.weight",)),
        "position_embedding/embeddings": Row(("embeddings.position_embeddings.weight",)),
        "segment_embedding/embeddings": Row(("embeddings.token_type_embeddings.weight",)),
    }

    def norm(path: str, name: str) -> None:
        table[f"{path}/gamma"] = Row((f"{name}.LayerNorm.weight",))
        table[f"{path}/beta"] = Row((f"{name}.LayerNorm.bias",))

    def dense(path: str, *names: str) -> None:
        table[f"{path}/kernel"] = Row(tuple(f"{name}.weight" for name in names), transposed=True)
        table[f"{path}/bias"] = Row(tuple(f"{name}.bias" for name in names))

    norm("embedding_norm", "embeddings")
    for i in range(num_layers):
        path, name = f"layer_{i}", f"encoder.layer.{i}"
        attention = f"{name}.attention.self"
        dense(f"{path}/attention/qkv", *(f"{attention}.{p}" for p in ("query", "key", "value")))
        dense(f"{path}/attention/output", f"{name}.attention.output.dense")
        norm(f"{path}/attention_norm", f"{name}.attention.output")
        dense(f"{path}/intermediate", f"{name}.intermediate.dense")
        dense(f"{path}/output", f"{name}.output.dense")
        norm(f"{path}/output_norm", f"{name}.output")
    if pooler:
        dense("pooler/dense", "pooler.dense")
    if masked_lm:
        dense("masked_lm_head/dense", "cls.predictions.transform.dense")
        norm("masked_lm_head/norm", "cls.predictions.transform")
        table["masked_lm_bias/bias"] = Row(("cls.predictions.bias",))
    if next_sentence:
        dense("next_sentence_head/dense", "cls.seq_relationship")
    return table
