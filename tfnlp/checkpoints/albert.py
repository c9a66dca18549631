"""ALBERT's checkpoints: Hugging Face's (modeling_albert.py)."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import keras

from tfnlp.checkpoints.encoder_files import (
    BERT_NUMBERS,
    BERT_SIZES,
    ConfigNames,
    EncoderFiles,
    TensorNames,
    heads_like_the_encoder,
)
from tfnlp.checkpoints.encoders import load_encoder, save_encoder
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.mapping import LEGACY, UNTIED, Row, bert_embeddings, torch_names
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.tokenizers.sentencepiece import SENTENCEPIECE
from tfnlp.models import albert, albert_pretrainer
from tfnlp.models.albert import shared_blocks


def _rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    table = torch_names()
    bert_embeddings(table)
    table.dense("embedding_projection", "encoder.embedding_hidden_mapping_in")
    sizes = config["num_groups"], config["group_blocks"]
    for number, path in enumerate(shared_blocks(*sizes)):
        group, block = divmod(number, sizes[1])
        name = f"encoder.albert_layer_groups.{group}.albert_layers.{block}"
        parts = (f"{name}.attention.{part}" for part in ("query", "key", "value"))
        table.dense(f"{path}/attention/qkv", *parts)
        table.dense(f"{path}/attention/output", f"{name}.attention.dense")
        table.norm(f"{path}/attention_norm", f"{name}.attention.LayerNorm")
        table.dense(f"{path}/intermediate", f"{name}.ffn")
        table.dense(f"{path}/output", f"{name}.ffn_output")
        table.norm(f"{path}/output_norm", f"{name}.full_layer_layer_norm")
    if config["pooler"]:
        table.dense("pooler/dense", "pooler")
    if "masked_lm" in heads:
        table.masked_lm(
            "predictions.dense",
            "predictions.LayerNorm",
            "predictions.bias",
            "predictions.decoder.weight" if UNTIED in heads else "",
        )
    if "sentence_order" in heads:
        table.dense("sentence_order_head/dense", "sop_classifier.classifier")
    return table.rows


HUGGINGFACE = TensorNames(
    rows=_rows,
    heads={"masked_lm": ("predictions.",), "sentence_order": ("sop_classifier.",)},
    layer=None,
    base="albert.",
    hint="'albert.embeddings.' or 'embeddings.' (Hugging Face)",
    pooler="pooler.",
    copies={
        "predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
    renamed=LEGACY,
)
_GROUPS = {"num_hidden_groups": "num_groups", "inner_group_num": "group_blocks"}
ALBERT_FILES = EncoderFiles(
    title="ALBERT",
    loader="load_albert",
    encoder=albert,
    pretrainer=functools.partial(heads_like_the_encoder, albert_pretrainer),
    config=ConfigNames(
        "albert",
        sizes={**BERT_SIZES, "embedding_size": "embedding_size", **_GROUPS},
        numbers={
            **BERT_NUMBERS,
            "hidden_dropout_prob": ("dropout", 0.0, 0.0, 1.0),
            "attention_probs_dropout_prob": ("attention_dropout", 0.0, 0.0, 1.0),
        },
        default_activation="gelu_new",
        optional=dict.fromkeys(_GROUPS, 1),
        written={
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
    ),
    formats=(HUGGINGFACE,),
    classes={
        ("masked_lm", "sentence_order"): "AlbertForPreTraining",
        ("masked_lm",): "AlbertForMaskedLM",
        (): "AlbertModel",
    },
    needs_pooler=("sentence_order",),
    tokenizer=SENTENCEPIECE,
    tasks=task_heads("Albert"),
)


def load_albert(path: str | os.PathLike, **options: Any) -> Pretrained:
    """Load a published ALBERT checkpoint in Hugging Face's format.

    Args:
        path: a local folder with `config.json` and usually `spiece.model` or `tokenizer.json`, or
            a weight file in it.
        options: those of `tfnlp.checkpoints.encoders.load_encoder`, such as `dtype`,
            `vocab`, `lowercase` and `ignore`; the errors are its own too.
    """
    return load_encoder(ALBERT_FILES, path, **options)


def save_albert(
    model: keras.Model,
    directory: str | os.PathLike,
    tokenizer: Any = None,
    overwrite: bool = False,
) -> None:
    """Write the folder that `from_pretrained` and `load_albert` read.

    Args:
        model: an encoder made by `albert` or a model made by `albert_pretrainer`.
        directory, tokenizer, overwrite: as in `tfnlp.checkpoints.encoders.save_encoder`.
    """
    save_encoder(ALBERT_FILES, model, directory, tokenizer, overwrite)
