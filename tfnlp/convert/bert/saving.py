"""tfnlp's BERT as arrays by published names, or as a Hugging Face folder."""

from __future__ import annotations

import os
import pathlib
import shutil
from types import ModuleType
from typing import Any

import keras
import numpy as np
from safetensors.numpy import save_file

from tfnlp.convert.bert import google as bert_google
from tfnlp.convert.bert import huggingface as bert_huggingface
from tfnlp.convert.bert.config import ACTIVATIONS, NUMBERS, SIZES, config_of
from tfnlp.convert.bert.vocabulary import vocabulary_lines
from tfnlp.convert.folders import new_folder
from tfnlp.convert.formats.json_files import write_json
from tfnlp.convert.mapping import tensors_from_weights


def google_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of the names in Google's checkpoints to float32 arrays.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.

    Raises:
        ValueError: if `model` is not a BERT.
    """
    return _tensors(bert_google, model)


def huggingface_tensors(model: keras.Model) -> dict[str, np.ndarray]:
    """Return a dict of Hugging Face's names to float32 arrays, with PyTorch's transposed kernels.

    With heads the encoder's names begin with `bert.`, as in `BertForPreTraining`; without, they
    are those of `BertModel`.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.

    Raises:
        ValueError: if `model` is not a BERT.
    """
    tensors = _tensors(bert_huggingface, model)
    if not any(_heads(model)):
        return tensors
    return {n if n.startswith("cls.") else f"bert.{n}": array for n, array in tensors.items()}


def save_huggingface(
    model: keras.Model,
    directory: str | os.PathLike,
    vocabulary: str | os.PathLike | None = None,
    lowercase: bool | None = None,
) -> None:
    """Write the folder that `from_pretrained` and `load_bert` read.

    It holds `model.safetensors`, `config.json` and, with a vocabulary, `vocab.txt` and
    `tokenizer_config.json`.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.
        directory: a folder that does not exist yet, or is empty.
        vocabulary: path of the vocabulary file.
        lowercase: whether the vocabulary is for lower-cased text; needed with a vocabulary.

    Raises:
        ValueError: if `model` is not a BERT, the vocabulary is longer than its table, or
            `lowercase` is not given with it.
        FileExistsError: if `directory` exists and is not empty.
        OSError: if it can't be written; no incomplete folder is left.
    """
    config = config_of(model)
    if vocabulary is not None:
        size = len(vocabulary_lines(pathlib.Path(vocabulary)))
        if size > config["vocab_size"]:
            raise ValueError(
                f"vocabulary {vocabulary} has {size} tokens, but the model's vocab_size is "
                f"{config['vocab_size']}"
            )
        if type(lowercase) is not bool:
            raise ValueError(f"lowercase={lowercase!r}: a vocabulary needs lowercase=True or False")
    stated = _huggingface_config(config, model)
    with new_folder(directory) as folder:
        save_file(
            huggingface_tensors(model),
            os.path.join(folder, "model.safetensors"),
            metadata={"format": "pt"},  # `from_pretrained` refuses a file without it
        )
        write_json(os.path.join(folder, "config.json"), stated)
        if vocabulary is not None:
            shutil.copyfile(vocabulary, os.path.join(folder, "vocab.txt"))
            write_json(
                os.path.join(folder, "tokenizer_config.json"),
                {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"},
            )


def _heads(model: keras.Model) -> tuple[bool, bool]:
    names = {layer.name for layer in model.layers}
    return "masked_lm_head" in names, "next_sentence_head" in names


def _tensors(form: ModuleType, model: keras.Model) -> dict[str, np.ndarray]:
    config = config_of(model)
    rows = form.rows(config["num_layers"], config["pooler"], *_heads(model))
    return tensors_from_weights(rows, model)


def _huggingface_config(config: dict[str, Any], model: keras.Model) -> dict[str, Any]:
    architecture = {
        (True, True): "BertForPreTraining",
        (True, False): "BertForMaskedLM",
        (False, True): "BertForNextSentencePrediction",
        (False, False): "BertModel",
    }[_heads(model)]
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    activations["gelu_tanh"] = "gelu_new"  # the name that every version of transformers knows
    if config["activation"] not in activations:
        raise ValueError(
            f"activation={config['activation']!r} has no name in Hugging Face's BERT; expected "
            f"one of {sorted(activations)}"
        )
    return {
        "architectures": [architecture],
        "model_type": "bert",
        **{theirs: config[ours] for theirs, ours in SIZES.items()},
        **{theirs: config[ours] for theirs, (ours, *_) in NUMBERS.items()},
        "hidden_act": activations[config["activation"]],
        "pad_token_id": 0,
    }
