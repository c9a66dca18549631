"""MPNet's checkpoints: Hugging Face's (modeling_mpnet.py)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tfnlp.checkpoints.encoder_files import (
    BERT_SIZES,
    ConfigNames,
    EncoderFiles,
    TensorNames,
    heads_like_the_encoder,
)
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.mapping import BERT_LAYER, LEGACY, Row, bert_embeddings, torch_names
from tfnlp.checkpoints.roberta import COPIES, HEADS, add_heads
from tfnlp.checkpoints.tokenizers.tokenizer_json import TOKENIZER_JSON
from tfnlp.models import mpnet, mpnet_pretrainer
from tfnlp.models.roberta import PADDING_ID

_BUCKETS = "relative_attention_num_buckets"


def _rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    table = torch_names()
    bert_embeddings(table, segments=False)
    table.tensor("distance_embedding/embeddings", "encoder.relative_attention_bias.weight")
    for i in range(config["num_layers"]):
        path, name = f"layer_{i}", f"encoder.layer.{i}"
        table.dense(f"{path}/attention/qkv", *(f"{name}.attention.attn.{part}" for part in "qkv"))
        table.dense(f"{path}/attention/output", f"{name}.attention.attn.o")
        table.norm(f"{path}/attention_norm", f"{name}.attention.LayerNorm")
        table.dense(f"{path}/intermediate", f"{name}.intermediate.dense")
        table.dense(f"{path}/output", f"{name}.output.dense")
        table.norm(f"{path}/output_norm", f"{name}.output.LayerNorm")
    add_heads(table, config, heads)
    return table.rows


MPNET_FILES = EncoderFiles(
    title="MPNet",
    loader="load_encoder",
    encoder=mpnet,
    pretrainer=functools.partial(heads_like_the_encoder, mpnet_pretrainer),
    config=ConfigNames(
        "mpnet",
        sizes={
            **{key: name for key, name in BERT_SIZES.items() if name != "num_segments"},
            _BUCKETS: "position_buckets",
        },
        optional={_BUCKETS: 32},
        counts_from_padding=True,
        fixed={"pad_token_id": PADDING_ID},
    ),
    formats=(
        TensorNames(
            rows=_rows,
            heads={"masked_lm": ("lm_head.",)},
            layer=BERT_LAYER,
            base="mpnet.",
            hint="'mpnet.embeddings.' or 'embeddings.'",
            pooler="pooler.",
            copies=COPIES,
            renamed=LEGACY,
        ),
    ),
    classes={("masked_lm",): "MPNetForMaskedLM", (): "MPNetModel"},
    head_activation="gelu",
    tokenizer=TOKENIZER_JSON,
    tasks=task_heads("MPNet", *HEADS),
)
