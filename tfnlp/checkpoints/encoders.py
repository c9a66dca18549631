"""The encoders' checkpoints: one declaration a family, which `EncoderFiles` reads and writes.

Google's BERT is google-research/bert, modeling.py; the other names are those of Hugging Face's
modeling_*.py.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from tfnlp import models
from tfnlp.checkpoints.config import BERT_NUMBERS, BERT_SIZES, ConfigNames
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.mapping import BERT_BLOCK, BERT_EMBEDDINGS, Layers, Row, TensorNames, Words
from tfnlp.checkpoints.tokenizers.byte_pairs import ROBERTA_BYTE_PAIRS
from tfnlp.checkpoints.tokenizers.files import TOKENIZER_JSON
from tfnlp.checkpoints.tokenizers.sentencepiece import SENTENCEPIECE
from tfnlp.checkpoints.tokenizers.wordpiece import WordPieces
from tfnlp.models.albert import shared_blocks
from tfnlp.models.roberta import PADDING_ID
from tfnlp.text.lines import read_lines

# BERT

_LAYERS = {**BERT_EMBEDDINGS, "pooler/dense": "pooler.dense"}
_MASKED_LM = {
    "masked_lm_head/dense": "cls.predictions.transform.dense",
    "masked_lm_head/norm": "cls.predictions.transform.LayerNorm",
}
BERT_NAMES = TensorNames(
    layers=_LAYERS,
    heads={
        "masked_lm": {
            **_MASKED_LM,
            "masked_lm_bias": "cls.predictions.bias",
            "masked_lm_table": "cls.predictions.decoder",
        },
        "next_sentence": {"next_sentence_head/dense": "cls.seq_relationship"},
    },
    base="bert.",
)


def _with_slashes(layers: Layers, prefix: str = "") -> Layers:
    """Return names of Hugging Face as Google's."""
    return {
        layer: prefix + names.replace(".", "/")
        if isinstance(names, str)
        else tuple(name.replace(".", "/") for name in names)
        for layer, names in layers.items()
    }


_PAIRS = "cls/seq_relationship/output"
# Kernels are `[in, out]` as in Keras, except the next-sentence head's, which is `[2, H]`.
GOOGLE_NAMES = TensorNames(
    layers=_with_slashes(_LAYERS, "bert/"),
    block=_with_slashes(BERT_BLOCK),
    prefix="bert/encoder/layer_{}/",
    heads={
        "masked_lm": {
            **_with_slashes(_MASKED_LM),
            "masked_lm_bias": "cls/predictions/output_bias",
        },
        "next_sentence": {
            "next_sentence_head/dense/kernel": Row((f"{_PAIRS}_weights",), transposed=True),
            "next_sentence_head/dense/bias": Row((f"{_PAIRS}_bias",)),
        },
    },
    words=Words("/gamma", "/beta", "/kernel", "/bias", ""),
    beginning="bert/",
    hint="'bert/' (Google)",
)
BERT_FILES = EncoderFiles(
    title="BERT",
    encoder=models.bert,
    pretrainer=models.bert_pretrainer,
    config=ConfigNames("bert", written={"pad_token_id": 0}),
    formats=(GOOGLE_NAMES, BERT_NAMES),
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
load_bert = BERT_FILES.load

# RoBERTa, XLM-RoBERTa and MPNet

ROBERTA_NAMES = TensorNames(
    layers={**BERT_EMBEDDINGS, "pooler/dense": "pooler.dense"},
    heads={
        "masked_lm": {
            "masked_lm_head/dense": "lm_head.dense",
            "masked_lm_head/norm": "lm_head.layer_norm",
            "masked_lm_bias": "lm_head.bias",
            "masked_lm_table": "lm_head.decoder",
        }
    },
    base="roberta.",
)
# Of whole texts, and of multiple choice.
_ROBERTA_HEADS = (
    {"hidden": "classifier.dense", "classifier": "classifier.out_proj"},
    {"hidden": "pooler.dense", "classifier": "classifier"},
)
ROBERTA_FILES = EncoderFiles(
    title="RoBERTa",
    encoder=models.roberta,
    pretrainer=models.roberta_pretrainer,
    config=ConfigNames(
        "roberta",
        optional={"pad_token_id": PADDING_ID, "type_vocab_size": 1},
        counts_from_padding=True,
    ),
    formats=(ROBERTA_NAMES,),
    classes={("masked_lm",): "RobertaForMaskedLM", (): "RobertaModel"},
    head_activation="gelu",  # whatever the blocks have
    tokenizer=ROBERTA_BYTE_PAIRS,
    tasks=task_heads("Roberta", *_ROBERTA_HEADS),
)
# The same network with a vocabulary of many languages.
XLM_ROBERTA_FILES = dataclasses.replace(
    ROBERTA_FILES,
    title="XLM-RoBERTa",
    config=dataclasses.replace(ROBERTA_FILES.config, model_type="xlm-roberta"),
    classes={heads: f"XLM{name}" for heads, name in ROBERTA_FILES.classes.items()},
    tokenizer=TOKENIZER_JSON,
    tasks=task_heads("XLMRoberta", *_ROBERTA_HEADS),
)
_BUCKETS = "relative_attention_num_buckets"
MPNET_FILES = EncoderFiles(
    title="MPNet",
    encoder=models.mpnet,
    pretrainer=models.mpnet_pretrainer,
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
        dataclasses.replace(
            ROBERTA_NAMES,
            layers={
                **ROBERTA_NAMES.layers,
                "distance_embedding": "encoder.relative_attention_bias",
            },
            block={
                **BERT_BLOCK,
                "attention/qkv": tuple(f"attention.attn.{part}" for part in "qkv"),
                "attention/output": "attention.attn.o",
                "attention_norm": "attention.LayerNorm",
            },
            base="mpnet.",
        ),
    ),
    classes={("masked_lm",): "MPNetForMaskedLM", (): "MPNetModel"},
    head_activation="gelu",
    tokenizer=TOKENIZER_JSON,
    tasks=task_heads("MPNet", *_ROBERTA_HEADS),
)
load_roberta = ROBERTA_FILES.load
save_roberta = ROBERTA_FILES.save

# ALBERT


class SharedNames(TensorNames):
    """Names of layers that share their blocks; `prefix` has the numbers of group and block."""

    layer = None

    def blocks(self, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        groups, size = config["num_groups"], config["group_blocks"]
        for number, name in enumerate(shared_blocks(groups, size)):
            yield f"{name}/", self.prefix.format(*divmod(number, size))


ALBERT_NAMES = SharedNames(
    layers={
        **BERT_EMBEDDINGS,
        "embedding_projection": "encoder.embedding_hidden_mapping_in",
        "pooler/dense": "pooler",
    },
    block={
        "attention/qkv": tuple(f"attention.{part}" for part in ("query", "key", "value")),
        "attention/output": "attention.dense",
        "attention_norm": "attention.LayerNorm",
        "intermediate": "ffn",
        "output": "ffn_output",
        "output_norm": "full_layer_layer_norm",
    },
    prefix="encoder.albert_layer_groups.{}.albert_layers.{}.",
    heads={
        "masked_lm": {
            "masked_lm_head/dense": "predictions.dense",
            "masked_lm_head/norm": "predictions.LayerNorm",
            "masked_lm_bias": "predictions.bias",
            "masked_lm_table": "predictions.decoder",
        },
        "sentence_order": {"sentence_order_head/dense": "sop_classifier.classifier"},
    },
    base="albert.",
)
_GROUPS = {"num_hidden_groups": "num_groups", "inner_group_num": "group_blocks"}
ALBERT_FILES = EncoderFiles(
    title="ALBERT",
    encoder=models.albert,
    pretrainer=models.albert_pretrainer,
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
        written={"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    ),
    formats=(ALBERT_NAMES,),
    classes={
        ("masked_lm", "sentence_order"): "AlbertForPreTraining",
        ("masked_lm",): "AlbertForMaskedLM",
        (): "AlbertModel",
    },
    needs_pooler=("sentence_order",),
    tokenizer=SENTENCEPIECE,
    tasks=task_heads("Albert"),
)
load_albert = ALBERT_FILES.load
save_albert = ALBERT_FILES.save

# DistilBERT

DISTILBERT_FILES = EncoderFiles(
    title="DistilBERT",
    encoder=models.distilbert,
    pretrainer=models.distilbert_pretrainer,
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
    ),
    formats=(
        TensorNames(
            layers=BERT_EMBEDDINGS,
            block={
                "attention/qkv": tuple(f"attention.{part}_lin" for part in "qkv"),
                "attention/output": "attention.out_lin",
                "attention_norm": "sa_layer_norm",
                "intermediate": "ffn.lin1",
                "output": "ffn.lin2",
                "output_norm": "output_layer_norm",
            },
            prefix="transformer.layer.{}.",
            heads={
                "masked_lm": {
                    "masked_lm_head/dense": "vocab_transform",
                    "masked_lm_head/norm": "vocab_layer_norm",
                    "masked_lm_bias": "vocab_projector.bias",
                    "masked_lm_table": "vocab_projector",
                }
            },
            base="distilbert.",
        ),
    ),
    classes={("masked_lm",): "DistilBertForMaskedLM", (): "DistilBertModel"},
    tasks=task_heads("DistilBert", {"hidden": "pre_classifier", "classifier": "classifier"}),
)
load_distilbert = DISTILBERT_FILES.load
save_distilbert = DISTILBERT_FILES.save


def google_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of the names in Google's checkpoints to float32 arrays.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.

    Raises:
        ValueError: if `model` is not a BERT.
    """
    return BERT_FILES.tensors(GOOGLE_NAMES, model)


def huggingface_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of Hugging Face's names to float32 arrays, with PyTorch's transposed kernels.

    With heads the encoder's names begin with `bert.`, as in `BertForPreTraining`; without, they
    are those of `BertModel`. Arguments and errors are those of `google_tensors`.
    """
    return BERT_FILES.tensors(BERT_NAMES, model)


def save_huggingface(
    model: keras.Model,
    directory: str | os.PathLike,
    vocabulary: str | os.PathLike | None = None,
    lowercase: bool | None = None,
    overwrite: bool = False,
) -> None:
    """Write the folder that `from_pretrained` and `load_bert` read.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.
        directory: a folder that does not exist yet, or is empty.
        vocabulary: path of the vocabulary file; its files are written then.
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
        tokenizer = WordPieces(read_lines(vocabulary, "vocabulary"), lowercase)
    BERT_FILES.save(model, directory, tokenizer, overwrite)
