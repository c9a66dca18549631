"""Published checkpoints of encoders as tfnlp models."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.encoders.config import read_config
from tfnlp.checkpoints.encoders.files import EncoderFiles, TensorNames
from tfnlp.checkpoints.folders import find_one, find_weights
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.heads.config import head_of
from tfnlp.checkpoints.mapping import (
    assign,
    check_copies,
    check_layers,
    read_weights,
    separate_copies,
    table_names,
)
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.models.shapes import weight_shapes
from tfnlp.text.lines import shown

_MOST_SHARED = 1000  # layers that share their weights: the file does not hold their number


def load_encoder(
    files: EncoderFiles,
    path: str | os.PathLike,
    *,
    activation: str | None = None,
    dropout: float | None = None,
    attention_dropout: float | None = None,
    seq_length: int | None = None,
    dtype: Any = None,
    max_predictions: int | None = None,
    config_file: str | os.PathLike | None = None,
    vocab: str | os.PathLike | None = None,
    lowercase: bool | None = None,
    ignore: str | Sequence[str] = (),
) -> Pretrained:
    """Load a published checkpoint of an encoder.

    The file is compared with its configuration tensor by tensor before a model is built, and
    read whole before a weight is assigned: an error leaves nothing half-loaded.

    Args:
        files: the files of the family.
        path: a local folder, or a weight file in it: the prefix of a TensorFlow checkpoint,
            `.safetensors` or `pytorch_model.bin` (or the index of its shards), `.npz`. The same
            folder holds the configuration, and usually the vocabulary. Load only TensorFlow
            checkpoints that you trust: a forged index file can end the process.
        activation: "gelu" (erf), "gelu_tanh" or "relu" instead of the configuration's.
        dropout, attention_dropout: rates instead of the configuration's.
        seq_length, dtype: as in the encoder's function.
        max_predictions: static number of masked positions, or None for any number.
        config_file: the configuration, if it is elsewhere.
        vocab: the vocabulary, if it is elsewhere.
        lowercase: whether the vocabulary is for lower-cased text, instead of what the files say.
        ignore: beginnings of the names of tensors to leave out, such as a classifier's.

    Returns:
        A `Pretrained`; its `pretrainer` has those pretraining heads that the checkpoint holds. The
        head of a task is left out, and `left_out` names the class.

    Raises:
        FileNotFoundError: for a file that does not exist.
        ValueError: for a damaged file, an invalid configuration, tensors that are missing, surplus
            or misshapen (all listed in one message), a vocabulary that is longer than the
            embedding table.
    """
    weights_path = find_weights(path)
    folder = weights_path.parent
    if config_file is None:
        config_path = find_one(folder, files.configurations, "configuration")
    else:
        config_path = pathlib.Path(config_file)
        if not config_path.is_file():
            raise FileNotFoundError(f"config_file {config_path} does not exist")
    config = read_config(files, config_path, activation)
    for name, rate in (("dropout", dropout), ("attention_dropout", attention_dropout)):
        if rate is not None:
            config[name] = rate
    found = files.tokenizer.find(folder, vocab, lowercase, config["vocab_size"], files.loader)

    tensors = open_tensors(weights_path)
    ignore = [ignore] if isinstance(ignore, str) else list(ignore)
    head = head_of(config_path, files.tasks.values())
    if head is not None:
        ignore += head.beginnings(files.huggingface.pooler)
    weights, heads = _read(files, tensors, config, config_path, ignore)
    encoder = model = files.encoder(**config, seq_length=seq_length, dtype=dtype)
    pretrainer = None
    if any(heads.values()):
        pretrainer = model = files.pretrainer(encoder, config, heads, max_predictions)
    assign(model, weights)
    return Pretrained(
        encoder,
        pretrainer,
        config,
        make_tokenizer=found.make,
        vocabulary=found.path,
        lowercase=found.lowercase,
        path=str(path),
        left_out=None if head is None else head.architecture,
    )


def _read(
    files: EncoderFiles,
    tensors: Tensors,
    config: dict[str, Any],
    config_path: pathlib.Path,
    ignore: Sequence[str],
) -> tuple[dict[str, np.ndarray], dict[str, bool]]:
    """Return the weights, and the heads as arguments of the pretrainer; set `config["pooler"]`."""
    form, names = recognise(files.formats, files.title, tensors, ignore)
    key, num_layers = files.config.size_key("num_layers"), config["num_layers"]
    if form.layer is not None:
        check_layers(tensors, names, form.layer, config_path, key, num_layers)
    elif num_layers > _MOST_SHARED:
        raise ValueError(
            f"{config_path} has {key}={num_layers}; expected at most {_MOST_SHARED} layers that "
            "share their weights"
        )
    copies = separate_copies(form.copies, names)

    def has(*beginnings: str) -> bool:
        return any(name.startswith(beginnings) for name in names)

    heads = {head: has(*beginnings) for head, beginnings in form.heads.items()}
    held = frozenset(head for head, there in heads.items() if there)
    if form.pooler is not None:
        config["pooler"] = has(form.pooler) or not held.isdisjoint(files.needs_pooler)

    def build(**arguments: Any) -> keras.Model:
        encoder = files.encoder(**arguments)
        return files.pretrainer(encoder, config, heads, None) if held else encoder

    hint = f"sizes from {config_path}; `ignore` leaves surplus tensors out"
    shapes = weight_shapes(build, config)
    weights = read_weights(tensors, names, form.rows(config, held), shapes, hint)
    check_copies(tensors, copies, f"tfnlp's {files.title} shares one array between them")
    return weights, heads


def recognise(
    formats: Sequence[TensorNames], title: str, tensors: Tensors, ignore: Sequence[str]
) -> tuple[TensorNames, dict[str, str]]:
    """Return the file's format, and a dict of its names to those in the file."""
    for form in formats:
        names = table_names(tensors, form.canonical, ignore)
        if any(name.startswith(form.beginning) for name in names):
            return form, names
    hints = " or with ".join(form.hint for form in formats)
    raise ValueError(
        f"{tensors.path} holds no {title}: expected names that begin with {hints}, found "
        f"{shown(list(tensors)[:3])}"
    )
