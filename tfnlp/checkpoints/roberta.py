"""RoBERTa's checkpoints, and XLM-RoBERTa's: Hugging Face's (modeling_roberta.py)."""

from __future__ import annotations

import dataclasses
import functools
import os
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
from tfnlp.checkpoints.mapping import (
    BERT_LAYER,
    LEGACY,
    UNTIED,
    NameTable,
    Row,
    bert_embeddings,
    bert_layers,
    torch_names,
)
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.tokenizers.byte_pairs import sentence_byte_pairs
from tfnlp.checkpoints.tokenizers.tokenizer_json import TOKENIZER_JSON
from tfnlp.models import roberta, roberta_pretrainer
from tfnlp.models.roberta import PADDING_ID
from tfnlp.text import RobertaTokenizer


def _rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    table = torch_names()
    bert_embeddings(table)
    bert_layers(table, config["num_layers"])
    add_heads(table, config, heads)
    return table.rows


def add_heads(table: NameTable, config: Mapping[str, Any], heads: frozenset[str]) -> None:
    """Add the pooler and the head of the masked LM, where they are."""
    if config["pooler"]:
        table.dense("pooler/dense", "pooler.dense")
    if "masked_lm" in heads:
        table.masked_lm(
            "lm_head.dense",
            "lm_head.layer_norm",
            "lm_head.bias",
            "lm_head.decoder.weight" if UNTIED in heads else "",
        )


COPIES = {
    "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
    "lm_head.decoder.bias": "lm_head.bias",
}
HUGGINGFACE = TensorNames(
    rows=_rows,
    heads={"masked_lm": ("lm_head.",)},
    layer=BERT_LAYER,
    base="roberta.",
    hint="'roberta.embeddings.' or 'embeddings.' (Hugging Face)",
    pooler="pooler.",
    copies=COPIES,
    renamed=LEGACY,
)
# Of whole texts, and of multiple choice.
HEADS = (
    {"hidden": "classifier.dense", "classifier": "classifier.out_proj"},
    {"hidden": "pooler.dense", "classifier": "classifier"},
)
ROBERTA_FILES = EncoderFiles(
    title="RoBERTa",
    loader="load_roberta",
    encoder=roberta,
    pretrainer=functools.partial(heads_like_the_encoder, roberta_pretrainer),
    config=ConfigNames(
        "roberta",
        optional={"pad_token_id": PADDING_ID, "type_vocab_size": 1},
        counts_from_padding=True,
    ),
    formats=(HUGGINGFACE,),
    classes={("masked_lm",): "RobertaForMaskedLM", (): "RobertaModel"},
    head_activation="gelu",  # whatever the blocks have
    tokenizer=sentence_byte_pairs(RobertaTokenizer, "RobertaTokenizer"),
    tasks=task_heads("Roberta", *HEADS),
)
# The same network with a vocabulary of many languages.
XLM_ROBERTA_FILES = dataclasses.replace(
    ROBERTA_FILES,
    title="XLM-RoBERTa",
    loader="load_encoder",
    config=dataclasses.replace(ROBERTA_FILES.config, model_type="xlm-roberta"),
    classes={heads: f"XLM{name}" for heads, name in ROBERTA_FILES.classes.items()},
    tokenizer=TOKENIZER_JSON,
    tasks=task_heads("XLMRoberta", *HEADS),
)


def load_roberta(path: str | os.PathLike, **options: Any) -> Pretrained:
    """Load a published RoBERTa checkpoint in Hugging Face's format.

    Args:
        path: a local folder with `config.json` and usually `vocab.json` and `merges.txt`, or
            `tokenizer.json`; or a weight file in it.
        options: those of `tfnlp.checkpoints.encoders.load_encoder`, such as `dtype`,
            `vocab`, `lowercase` and `ignore`; the errors are its own too.
    """
    return load_encoder(ROBERTA_FILES, path, **options)


def save_roberta(
    model: keras.Model,
    directory: str | os.PathLike,
    tokenizer: Any = None,
    overwrite: bool = False,
) -> None:
    """Write the folder that `from_pretrained` and `load_roberta` read.

    Args:
        model: an encoder made by `roberta` or a model made by `roberta_pretrainer`.
        directory, tokenizer, overwrite: as in `tfnlp.checkpoints.encoders.save_encoder`.
    """
    save_encoder(ROBERTA_FILES, model, directory, tokenizer, overwrite)
