"""DistilBERT's checkpoints, by the names of Hugging Face's modeling_distilbert.py."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Any

import keras

from tfnlp.checkpoints.encoder_files import (
    ConfigNames,
    EncoderFiles,
    TensorNames,
    heads_like_the_encoder,
)
from tfnlp.checkpoints.encoders import load_encoder, save_encoder
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.mapping import UNTIED, Row, bert_embeddings, torch_names
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.models import distilbert, distilbert_pretrainer


def _rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    table = torch_names()
    bert_embeddings(table, segments=False)
    for i in range(config["num_layers"]):
        path, name = f"layer_{i}", f"transformer.layer.{i}"
        parts = (f"{name}.attention.{part}_lin" for part in "qkv")
        table.dense(f"{path}/attention/qkv", *parts)
        table.dense(f"{path}/attention/output", f"{name}.attention.out_lin")
        table.norm(f"{path}/attention_norm", f"{name}.sa_layer_norm")
        table.dense(f"{path}/intermediate", f"{name}.ffn.lin1")
        table.dense(f"{path}/output", f"{name}.ffn.lin2")
        table.norm(f"{path}/output_norm", f"{name}.output_layer_norm")
    if "masked_lm" in heads:
        table.masked_lm(
            "vocab_transform",
            "vocab_layer_norm",
            "vocab_projector.bias",
            "vocab_projector.weight" if UNTIED in heads else "",
        )
    return table.rows


DISTILBERT_FILES = EncoderFiles(
    title="DistilBERT",
    loader="load_distilbert",
    encoder=distilbert,
    pretrainer=functools.partial(heads_like_the_encoder, distilbert_pretrainer),
    config=ConfigNames(
        "distilbert",
        sizes={
            "vocab_size": "vocab_size",
            "n_layers": "num_layers",
            "dim": "hidden_size",
            "n_heads": "num_heads",
            "hidden_dim": "intermediate_size",
            "max_position_embeddings": "max_positions",
        },
        numbers={
            "dropout": ("dropout", 0.1, 0.0, 1.0),
            "attention_dropout": ("attention_dropout", 0.1, 0.0, 1.0),
            "initializer_range": ("initializer_range", 0.02, 0.0, 1000.0),
        },
        activation="activation",
        # Sinusoids are only initial values of the table, which is stored.
        written={"sinusoidal_pos_embds": False, "pad_token_id": 0},
        constants={"norm_epsilon": 1e-12},
    ),
    formats=(
        TensorNames(
            rows=_rows,
            heads={"masked_lm": ("vocab_",)},
            layer=re.compile(r"transformer\.layer\.(\d+)\."),
            base="distilbert.",
            hint="'distilbert.embeddings.' or 'embeddings.'",
            copies={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
        ),
    ),
    classes={("masked_lm",): "DistilBertForMaskedLM", (): "DistilBertModel"},
    tasks=task_heads("DistilBert", {"hidden": "pre_classifier", "classifier": "classifier"}),
)


def load_distilbert(path: str | os.PathLike, **options: Any) -> Pretrained:
    """Load a published DistilBERT checkpoint.

    Args:
        path: a local folder with `config.json` and usually `vocab.txt`, or a weight file in it.
        options: those of `tfnlp.checkpoints.encoders.load_encoder`, such as `dtype`,
            `vocab`, `lowercase` and `ignore`; the errors are its own too.
    """
    return load_encoder(DISTILBERT_FILES, path, **options)


def save_distilbert(
    model: keras.Model,
    directory: str | os.PathLike,
    tokenizer: Any = None,
    overwrite: bool = False,
) -> None:
    """Write the folder that `from_pretrained` and `load_distilbert` read.

    Args:
        model: a model made by `distilbert` or `distilbert_pretrainer`, whose layer norms have the
            epsilon 1e-12, which Hugging Face's classes have fixed.
        directory, tokenizer, overwrite: as in `tfnlp.checkpoints.encoders.save_encoder`.
    """
    save_encoder(DISTILBERT_FILES, model, directory, tokenizer, overwrite)
