"""RoBERTa's checkpoints: Hugging Face's (modeling_roberta.py)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import keras

from tfnlp.convert.encoders.bert_names import BERT_LAYER, LEGACY, bert_embeddings, bert_layers
from tfnlp.convert.encoders.files import (
    BERT_SIZES,
    ConfigNames,
    EncoderFiles,
    TensorNames,
    heads_like_the_encoder,
)
from tfnlp.convert.encoders.loading import load_encoder
from tfnlp.convert.encoders.saving import save_encoder
from tfnlp.convert.heads.files import task_heads
from tfnlp.convert.mapping import Row
from tfnlp.convert.name_table import torch_names
from tfnlp.convert.pretrained import Pretrained
from tfnlp.convert.tokenizers.byte_pairs import sentence_byte_pairs
from tfnlp.models import roberta, roberta_pretrainer
from tfnlp.models.roberta import PADDING_ID


def _rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    table = torch_names()
    bert_embeddings(table)
    bert_layers(table, config["num_layers"])
    if config["pooler"]:
        table.dense("pooler/dense", "pooler.dense")
    if "masked_lm" in heads:
        table.dense("masked_lm_head/dense", "lm_head.dense")
        table.norm("masked_lm_head/norm", "lm_head.layer_norm")
        table.tensor("masked_lm_bias/bias", "lm_head.bias")
    return table.rows


def _tokenizer(vocabulary: tuple) -> Any:
    from tfnlp.text import RobertaTokenizer

    return RobertaTokenizer(vocabulary)


HUGGINGFACE = TensorNames(
    rows=_rows,
    heads={"masked_lm": ("lm_head.",)},
    layer=BERT_LAYER,
    base="roberta.",
    hint="'roberta.embeddings.' or 'embeddings.' (Hugging Face)",
    pooler="pooler.",
    copies={
        "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    },
    renamed=LEGACY,
)
_ONE_SEGMENT = "type_vocab_size"
ROBERTA_FILES = EncoderFiles(
    title="RoBERTa",
    loader="load_roberta",
    encoder=roberta,
    pretrainer=heads_like_the_encoder(roberta_pretrainer),
    config=ConfigNames(
        "roberta",
        sizes={theirs: ours for theirs, ours in BERT_SIZES.items() if theirs != _ONE_SEGMENT},
        fixed={
            "position_embedding_type": "absolute",
            "is_decoder": False,
            "pad_token_id": PADDING_ID,
            _ONE_SEGMENT: 1,
        },
        written={"pad_token_id": PADDING_ID, _ONE_SEGMENT: 1},
        surplus={"max_positions": PADDING_ID + 1},
    ),
    formats=(HUGGINGFACE,),
    classes={("masked_lm",): "RobertaForMaskedLM", (): "RobertaModel"},
    tokenizer=sentence_byte_pairs(_tokenizer, "RobertaTokenizer"),
    tasks=task_heads(
        "Roberta",
        {"hidden": "classifier.dense", "classifier": "classifier.out_proj"},
        {"hidden": "pooler.dense", "classifier": "classifier"},
    ),
)


def load_roberta(path: str | os.PathLike, **options: Any) -> Pretrained:
    """Load a published RoBERTa checkpoint in Hugging Face's format.

    Args:
        path: a local folder with `config.json` and usually `vocab.json` and `merges.txt`, or
            `tokenizer.json`; or a weight file in it.
        options: those of `tfnlp.convert.encoders.loading.load_encoder`, such as `dtype` and
            `ignore`.

    Raises:
        FileNotFoundError: for a file that does not exist.
        ValueError: for files that are damaged or don't fit together; see `load_encoder`.
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
        directory: a folder that does not exist yet, or is empty.
        tokenizer: its `RobertaTokenizer`, or None.
        overwrite: replace a folder that holds such files and nothing else.

    Raises:
        ValueError: if `model` is not a RoBERTa, or the vocabulary is longer than its table.
        FileExistsError: if `directory` exists and may not be replaced.
        OSError: if it can't be written; what was there before is unchanged.
    """
    save_encoder(ROBERTA_FILES, model, directory, tokenizer, overwrite)
