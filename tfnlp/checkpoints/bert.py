"""BERT's checkpoints: Google's (google-research/bert, modeling.py) and Hugging Face's."""

from __future__ import annotations

import os

import keras
import numpy as np

from tfnlp.checkpoints.config import ConfigNames
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.heads import task_heads
from tfnlp.checkpoints.names import BERT_BLOCK, BERT_EMBEDDINGS, LEGACY, Row, TensorNames, Words
from tfnlp.checkpoints.tokenizers.wordpiece import WordPieces
from tfnlp.models import bert, bert_pretrainer
from tfnlp.text.lines import read_lines

_LAYERS = {**BERT_EMBEDDINGS, "pooler/dense": "pooler.dense"}
_MASKED_LM = {
    "masked_lm_head/dense": "cls.predictions.transform.dense",
    "masked_lm_head/norm": "cls.predictions.transform.LayerNorm",
}
HUGGINGFACE = TensorNames(
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
    hint="'bert.embeddings.' or 'embeddings.' (Hugging Face)",
    copies={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    renamed=LEGACY,
)


def _with_slashes(layers: dict, prefix: str = "") -> dict:
    """Return names of Hugging Face as Google's."""
    return {
        layer: prefix + names.replace(".", "/")
        if isinstance(names, str)
        else tuple(name.replace(".", "/") for name in names)
        for layer, names in layers.items()
    }


_PAIRS = "cls/seq_relationship/output"
# Kernels are `[in, out]` as in Keras, except the next-sentence head's, which is `[2, H]`.
GOOGLE = TensorNames(
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
    encoder=bert,
    pretrainer=bert_pretrainer,
    config=ConfigNames("bert", written={"pad_token_id": 0}),
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
load_bert = BERT_FILES.load


def google_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of the names in Google's checkpoints to float32 arrays.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.

    Raises:
        ValueError: if `model` is not a BERT.
    """
    return BERT_FILES.tensors(GOOGLE, model)


def huggingface_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of Hugging Face's names to float32 arrays, with PyTorch's transposed kernels.

    With heads the encoder's names begin with `bert.`, as in `BertForPreTraining`; without, they
    are those of `BertModel`. Arguments and errors are those of `google_tensors`.
    """
    return BERT_FILES.tensors(HUGGINGFACE, model)


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
