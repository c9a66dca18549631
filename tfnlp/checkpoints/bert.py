"""BERT's checkpoints: Google's (google-research/bert, modeling.py) and Hugging Face's."""

from __future__ import annotations

import functools
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.encoder_files import (
    ConfigNames,
    EncoderFiles,
    TensorNames,
    heads_like_the_encoder,
)
from tfnlp.checkpoints.encoders import encoder_tensors, load_encoder, save_encoder
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
from tfnlp.checkpoints.tokenizers.wordpiece import WordPieces, vocabulary_lines
from tfnlp.models import bert, bert_pretrainer


def _google_rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    """Kernels are `[in, out]` as in Keras, except the next-sentence head's, which is `[2, H]`."""
    table = NameTable("/gamma", "/beta", "/kernel", "/bias")
    for ours, theirs in (("token", "word"), ("position", "position"), ("segment", "token_type")):
        table.tensor(f"{ours}_embedding/embeddings", f"bert/embeddings/{theirs}_embeddings")
    table.norm("embedding_norm", "bert/embeddings/LayerNorm")
    for i in range(config["num_layers"]):
        path, name = f"layer_{i}", f"bert/encoder/layer_{i}"
        attention = f"{name}/attention/self"
        parts = (f"{attention}/{part}" for part in ("query", "key", "value"))
        table.dense(f"{path}/attention/qkv", *parts)
        table.dense(f"{path}/attention/output", f"{name}/attention/output/dense")
        table.norm(f"{path}/attention_norm", f"{name}/attention/output/LayerNorm")
        table.dense(f"{path}/intermediate", f"{name}/intermediate/dense")
        table.dense(f"{path}/output", f"{name}/output/dense")
        table.norm(f"{path}/output_norm", f"{name}/output/LayerNorm")
    if config["pooler"]:
        table.dense("pooler/dense", "bert/pooler/dense")
    if UNTIED in heads:
        raise ValueError("Google's files have no table for outputs alone, which this model has")
    if "masked_lm" in heads:
        table.masked_lm(
            "cls/predictions/transform/dense",
            "cls/predictions/transform/LayerNorm",
            "cls/predictions/output_bias",
        )
    if "next_sentence" in heads:
        name = "cls/seq_relationship/output"
        table.tensor("next_sentence_head/dense/kernel", f"{name}_weights", transposed=True)
        table.tensor("next_sentence_head/dense/bias", f"{name}_bias")
    return table.rows


def _huggingface_rows(config: Mapping[str, Any], heads: frozenset[str]) -> dict[str, Row]:
    table = torch_names()
    bert_embeddings(table)
    bert_layers(table, config["num_layers"])
    if config["pooler"]:
        table.dense("pooler/dense", "pooler.dense")
    if "masked_lm" in heads:
        table.masked_lm(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.bias",
            "cls.predictions.decoder.weight" if UNTIED in heads else "",
        )
    if "next_sentence" in heads:
        table.dense("next_sentence_head/dense", "cls.seq_relationship")
    return table.rows


GOOGLE = TensorNames(
    rows=_google_rows,
    heads={"masked_lm": ("cls/predictions/",), "next_sentence": ("cls/seq_relationship/",)},
    layer=re.compile(r"bert/encoder/layer_(\d+)/"),
    beginning="bert/",
    hint="'bert/' (Google)",
    pooler="bert/pooler/",
)
HUGGINGFACE = TensorNames(
    rows=_huggingface_rows,
    heads={"masked_lm": ("cls.predictions.",), "next_sentence": ("cls.seq_relationship.",)},
    layer=BERT_LAYER,
    base="bert.",
    hint="'bert.embeddings.' or 'embeddings.' (Hugging Face)",
    pooler="pooler.",
    copies={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    renamed=LEGACY,
)
BERT_FILES = EncoderFiles(
    title="BERT",
    loader="load_bert",
    encoder=bert,
    pretrainer=functools.partial(heads_like_the_encoder, bert_pretrainer),
    config=ConfigNames(
        "bert",
        written={"pad_token_id": 0},
    ),
    formats=(GOOGLE, HUGGINGFACE),
    classes={
        ("masked_lm", "next_sentence"): "BertForPreTraining",
        ("masked_lm",): "BertForMaskedLM",
        ("next_sentence",): "BertForNextSentencePrediction",
        (): "BertModel",
    },
    needs_pooler=("next_sentence",),
    configurations=("bert_config.json", "config.json"),
    tasks=task_heads("Bert"),
)


def load_bert(path: str | os.PathLike, **options: Any) -> Pretrained:
    """Load a published BERT checkpoint: Google's format or Hugging Face's.

    Args:
        path: a local folder with `bert_config.json` or `config.json` and usually `vocab.txt` or
            `tokenizer.json`, or a weight file in it.
        options: those of `tfnlp.checkpoints.encoders.load_encoder`, such as `dtype`,
            `vocab`, `lowercase` and `ignore`; the errors are its own too.
    """
    return load_encoder(BERT_FILES, path, **options)


def google_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of the names in Google's checkpoints to float32 arrays.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.

    Raises:
        ValueError: if `model` is not a BERT.
    """
    return encoder_tensors(BERT_FILES, GOOGLE, model)


def huggingface_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of Hugging Face's names to float32 arrays, with PyTorch's transposed kernels.

    With heads the encoder's names begin with `bert.`, as in `BertForPreTraining`; without, they
    are those of `BertModel`.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.

    Raises:
        ValueError: if `model` is not a BERT.
    """
    return encoder_tensors(BERT_FILES, HUGGINGFACE, model)


def save_huggingface(
    model: keras.Model,
    directory: str | os.PathLike,
    vocabulary: str | os.PathLike | None = None,
    lowercase: bool | None = None,
    overwrite: bool = False,
) -> None:
    """Write the folder that `from_pretrained` and `load_bert` read.

    It holds `model.safetensors`, `config.json` and, with a vocabulary, `vocab.txt`,
    `tokenizer.json` and `tokenizer_config.json`.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.
        directory: a folder that does not exist yet, or is empty.
        vocabulary: path of the vocabulary file.
        lowercase: whether the vocabulary is for lower-cased text; needed with a vocabulary.
        overwrite: replace a folder that holds such files and nothing else.

    Raises:
        ValueError: if `model` is not a BERT, the vocabulary is longer than its table, or
            `lowercase` is not given with it.
        FileExistsError: if `directory` exists and may not be replaced.
        OSError: if it can't be written; what was there before is unchanged.
    """
    tokenizer = None
    if vocabulary is not None:
        if type(lowercase) is not bool:
            raise ValueError(f"lowercase={lowercase!r}: a vocabulary needs lowercase=True or False")
        tokenizer = WordPieces(vocabulary_lines(pathlib.Path(vocabulary)), lowercase)
    save_encoder(BERT_FILES, model, directory, tokenizer, overwrite)
