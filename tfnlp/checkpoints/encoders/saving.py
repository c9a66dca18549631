"""tfnlp's encoders as arrays by published names, or as a Hugging Face folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from safetensors.numpy import save_file

from tfnlp.checkpoints.encoders.config import config_of, written_config
from tfnlp.checkpoints.encoders.files import EncoderFiles, TensorNames
from tfnlp.checkpoints.folders import new_folder
from tfnlp.checkpoints.formats.json_files import write_json
from tfnlp.checkpoints.mapping import tensors_from_weights
from tfnlp.checkpoints.sentence_transformers import (
    SENTENCE_FILES,
    SentenceSettings,
    write_sentence_settings,
)

MODEL_FILES = ("config.json", "model.safetensors")


def encoder_tensors(
    files: EncoderFiles, form: TensorNames, model: keras.Model
) -> dict[str, np.ndarray]:
    """Return a dict of published names to float32 arrays.

    With heads the encoder's names begin with the format's `base`, as in the classes with heads.
    """
    config = config_of(files, model)
    heads = _heads(form, model)
    tensors = tensors_from_weights(form.rows(config, frozenset(heads)), model)
    if not heads:
        return tensors
    outside = tuple(name for names in form.heads.values() for name in names)
    return {
        name if name.startswith(outside) else form.base + name: array
        for name, array in tensors.items()
    }


def save_encoder(
    files: EncoderFiles,
    model: keras.Model,
    directory: str | os.PathLike,
    tokenizer: Any = None,
    overwrite: bool = False,
    sentences: SentenceSettings | None = None,
) -> None:
    """Write the folder that `from_pretrained` and `load_encoder` read.

    It holds `model.safetensors`, `config.json` and, with a tokenizer, its files.

    Args:
        files: the files of the family.
        model: an encoder, or a model with pretraining heads.
        directory: a folder that does not exist yet, or is empty.
        tokenizer: the tokenizer, or None.
        overwrite: replace a folder that holds such files and nothing else.
        sentences: write the files of sentence-transformers too, which say this.

    Raises:
        ValueError: if `model` is not of the family, Hugging Face has no class for its heads, or
            the vocabulary is longer than its table.
        FileExistsError: if `directory` exists and may not be replaced.
        OSError: if it can't be written; what was there before is unchanged.
    """
    config = config_of(files, model)
    check_tokenizer(tokenizer, config)
    heads = _heads(files.huggingface, model)
    if heads not in files.classes:
        raise ValueError(
            f"Hugging Face has no {files.title} with the heads {', '.join(heads)}; give one of: "
            f"{'; '.join(', '.join(each) or 'none' for each in files.classes)}"
        )
    stated = written_config(files, config, files.classes[heads])
    tensors = encoder_tensors(files, files.huggingface, model)
    names = (*MODEL_FILES, *files.tokenizer.names, *SENTENCE_FILES)
    with new_folder(directory, names, overwrite) as folder:
        write_model(folder, stated, tensors)
        if sentences is not None:
            write_sentence_settings(folder, sentences, config["hidden_size"])
        if tokenizer is not None:
            files.tokenizer.write(folder, tokenizer, config["max_positions"])


def check_tokenizer(tokenizer: Any, config: Mapping[str, Any]) -> None:
    """Raise ValueError if a tokenizer, or None, has more tokens than a model."""
    if tokenizer is not None and tokenizer.vocab_size > config["vocab_size"]:
        raise ValueError(
            f"tokenizer has {tokenizer.vocab_size} tokens, but the model's vocab_size is "
            f"{config['vocab_size']}"
        )


def write_model(folder: str, stated: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> None:
    """Write `config.json` and `model.safetensors` into a folder."""
    config, weights = (os.path.join(folder, name) for name in MODEL_FILES)
    # `from_pretrained` refuses a file without this metadata.
    save_file(dict(tensors), weights, metadata={"format": "pt"})
    write_json(config, stated)


def _heads(form: TensorNames, model: keras.Model) -> tuple[str, ...]:
    """Return the heads that a model has: the layers of a head begin with its name."""
    names = [layer.name for layer in model.layers]
    return tuple(head for head in form.heads if any(n.startswith(head + "_") for n in names))
