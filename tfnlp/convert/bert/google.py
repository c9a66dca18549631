"""Names of Google's TensorFlow BERT checkpoints (google-research/bert, modeling.py)."""

from __future__ import annotations

import re

from tfnlp.convert.mapping import Row

LAYER = re.compile(r"bert/encoder/layer_(\d+)/")
POOLER, MASKED_LM, NEXT_SENTENCE = "bert/pooler/", "cls/predictions/", "cls/seq_relationship/"
PREFIX = "bert/"


def canonical(name: str) -> str:
    """Return the name in the table below: Google's names have one form only."""
    return name


def rows(num_layers: int, pooler: bool, masked_lm: bool, next_sentence: bool) -> dict[str, Row]:
    """Return the table of weight path to `Row`.

    Kernels are `[in, out]` as in Keras, except the next-sentence head's, which is `[2, H]`.
    """
    table = {
        "token_embedding/embeddings": Row(("bert/embeddings/word_embeddings",)),
        "position_embedding/embeddings": Row(("bert/embeddings/position_embeddings",)),
        "segment_embedding/embeddings": Row(("bert/embeddings/token_type_embeddings",)),
    }

    def norm(path: str, name: str) -> None:
        for part in ("gamma", "beta"):
            table[f"{path}/{part}"] = Row((f"{name}/LayerNorm/{part}",))

    def dense(path: str, *names: str) -> None:
        for part in ("kernel", "bias"):
            table[f"{path}/{part}"] = Row(tuple(f"{name}/{part}" for name in names))

    norm("embedding_norm", "bert/embeddings")
    for i in range(num_layers):
        path, name = f"layer_{i}", f"bert/encoder/layer_{i}"
        attention = f"{name}/attention/self"
        dense(f"{path}/attention/qkv", *(f"{attention}/{p}" for p in ("query", "key", "value")))
        dense(f"{path}/attention/output", f"{name}/attention/output/dense")
        norm(f"{path}/attention_norm", f"{name}/attention/output")
        dense(f"{path}/intermediate", f"{name}/intermediate/dense")
        dense(f"{path}/output", f"{name}/output/dense")
        norm(f"{path}/output_norm", f"{name}/output")
    if pooler:
        dense("pooler/dense", "bert/pooler/dense")
    if masked_lm:
        dense("masked_lm_head/dense", "cls/predictions/transform/dense")
        norm("masked_lm_head/norm", "cls/predictions/transform")
        table["masked_lm_bias/bias"] = Row(("cls/predictions/output_bias",))
    if next_sentence:
        head = "next_sentence_head/dense"
        table[f"{head}/kernel"] = Row(("cls/seq_relationship/output_weights",), transposed=True)
        table[f"{head}/bias"] = Row(("cls/seq_relationship/output_bias",))
    return table
