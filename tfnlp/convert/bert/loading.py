"""Published BERT checkpoints as tfnlp models."""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from tfnlp.convert.bert import google as bert_google
from tfnlp.convert.bert import huggingface as bert_huggingface
from tfnlp.convert.bert.config import read_config
from tfnlp.convert.bert.vocabulary import is_lowercase, vocabulary_lines
from tfnlp.convert.folders import find_one, find_weights
from tfnlp.convert.formats.tensors import Tensors
from tfnlp.convert.formats.weight_files import open_tensors
from tfnlp.convert.mapping import (
    assign,
    check_layers,
    check_tensors,
    stored_shapes,
    table_names,
    weights_from_tensors,
)
from tfnlp.convert.pretrained import Pretrained
from tfnlp.models import bert, bert_pretrainer
from tfnlp.models.shapes import weight_shapes
from tfnlp.text.lines import shown

if TYPE_CHECKING:
    from tfnlp.text import WordPieceTokenizer


def load_bert(
    path: str | os.PathLike,
    *,
    activation: str | None = None,
    dropout: float | None = None,
    attention_dropout: float | None = None,
    seq_length: int | None = None,
    max_predictions: int | None = None,
    dtype: Any = None,
    config_file: str | os.PathLike | None = None,
    vocab: str | os.PathLike | None = None,
    lowercase: bool | None = None,
    ignore: str | Sequence[str] = (),
) -> Pretrained:
    """Load a published BERT checkpoint: Google's format or Hugging Face's.

    The file is compared with its configuration tensor by tensor before a model is built, and
    read whole before a weight is assigned: an error leaves nothing half-loaded.

    Args:
        path: a local folder, or a weight file in it: the prefix of a TensorFlow checkpoint,
            `.safetensors` or `pytorch_model.bin` (or the index of its shards), `.npz`. The same
            folder holds `bert_config.json` or `config.json`, and usually `vocab.txt`. Load only
            TensorFlow checkpoints that you trust: a forged index file can end the process.
        activation: "gelu" (erf), "gelu_tanh" or "relu" instead of the configuration's.
        dropout, attention_dropout: rates instead of the configuration's.
        seq_length, dtype: as in `bert`.
        max_predictions: as in `bert_pretrainer`.
        config_file: the configuration, if it is elsewhere.
        vocab: the vocabulary, if it is elsewhere.
        lowercase: whether the vocabulary is for lower-cased text, instead of the answer of
            `tfnlp.convert.bert.vocabulary.is_lowercase`.
        ignore: beginnings of the names of tensors to leave out, such as a classifier's.

    Returns:
        A `Pretrained`; its `pretrainer` has those heads that the checkpoint holds.

    Raises:
        FileNotFoundError: for a file that does not exist.
        ValueError: for a damaged file, an invalid configuration, tensors that are missing, surplus
            or misshapen (all listed in one message), a vocabulary that is longer than the
            embedding table.
    """
    weights_path = find_weights(path)
    folder = weights_path.parent
    config_path = (
        pathlib.Path(config_file)
        if config_file
        else find_one(folder, ("bert_config.json", "config.json"), "configuration")
    )
    if not config_path.is_file():
        raise FileNotFoundError(f"config_file {config_path} does not exist")
    config = read_config(config_path, activation)
    for name, rate in (("dropout", dropout), ("attention_dropout", attention_dropout)):
        if rate is not None:
            config[name] = rate
    vocabulary, lowercase = _vocabulary(folder, vocab, lowercase, config["vocab_size"])

    tensors = open_tensors(weights_path)
    ignore = [ignore] if isinstance(ignore, str) else list(ignore)
    weights, heads = _read(tensors, config, config_path, ignore)
    encoder = model = bert(**config, seq_length=seq_length, dtype=dtype)
    pretrainer = None
    if any(heads.values()):
        pretrainer = model = _pretrainer(encoder, config, heads, max_predictions)
    assign(model, weights)
    return Pretrained(
        encoder,
        pretrainer,
        config,
        make_tokenizer=functools.partial(_tokenizer, vocabulary, lowercase),
        vocabulary=vocabulary,
        lowercase=lowercase,
        path=str(path),
    )


def _pretrainer(
    encoder: keras.Model,
    config: dict[str, Any],
    heads: dict[str, bool],
    max_predictions: int | None = None,
) -> keras.Model:
    return bert_pretrainer(
        encoder,
        activation=config["activation"],
        norm_epsilon=config["norm_epsilon"],
        initializer_range=config["initializer_range"],
        max_predictions=max_predictions,
        **heads,
    )


def _tokenizer(vocabulary: str | None, lowercase: bool | None) -> WordPieceTokenizer:
    from tfnlp.text import WordPieceTokenizer

    if vocabulary is None:
        raise ValueError("the checkpoint has no vocab.txt beside it; pass vocab= to load_bert")
    return WordPieceTokenizer(vocabulary, lowercase=lowercase)


def _vocabulary(
    folder: pathlib.Path,
    vocab: str | os.PathLike | None,
    lowercase: bool | None,
    vocab_size: int,
) -> tuple[str | None, bool | None]:
    """Return the path of the vocabulary and whether it is for lower-cased text."""
    path = pathlib.Path(os.fspath(vocab)) if vocab is not None else folder / "vocab.txt"
    if vocab is None and not path.exists():
        return None, lowercase
    tokens = vocabulary_lines(path)
    if len(tokens) > vocab_size:
        raise ValueError(
            f"vocabulary {path} has {len(tokens)} tokens, but the model's vocab_size is "
            f"{vocab_size}; it belongs to another checkpoint"
        )
    if lowercase is None:
        lowercase = is_lowercase(folder, path, tokens)
    return str(path), lowercase


def _read(
    tensors: Tensors, config: dict[str, Any], config_path: pathlib.Path, ignore: Sequence[str]
) -> tuple[dict[str, np.ndarray], dict[str, bool]]:
    """Compare the file with the configuration, then read it.

    Returns:
        The weights, and the heads as arguments of `bert_pretrainer`; `config["pooler"]` is set.
    """
    form, names = _recognise(tensors, ignore)
    layers = config["num_layers"]
    check_layers(tensors, names, form.LAYER, config_path, "num_hidden_layers", layers)
    copies = _separate_copies(form, names)

    def has(prefix: str) -> bool:
        return any(name.startswith(prefix) for name in names)

    heads = {"masked_lm": has(form.MASKED_LM), "next_sentence": has(form.NEXT_SENTENCE)}
    config["pooler"] = has(form.POOLER) or heads["next_sentence"]  # that head needs the pooler

    def build(**arguments: Any) -> keras.Model:
        encoder = bert(**arguments)
        return _pretrainer(encoder, config, heads) if any(heads.values()) else encoder

    rows = form.rows(layers, config["pooler"], **heads)
    shapes = weight_shapes(build, config)
    hint = f"sizes from {config_path}; `ignore` leaves surplus tensors out"
    check_tensors(tensors, names, stored_shapes(rows, shapes), hint)
    for copy, name in copies.items():
        if not np.array_equal(tensors[copy], tensors[name]):
            raise ValueError(
                f"{tensors.path} has different values in {shown(copy)} and {shown(name)}; tfnlp's "
                "BERT shares one array between them"
            )
    return weights_from_tensors(rows, lambda name: tensors[names[name]]), heads


def _recognise(tensors: Tensors, ignore: Sequence[str]) -> tuple[ModuleType, dict[str, str]]:
    """Return the module of the file's format, and a dict of its names to those in the file."""
    for form in (bert_google, bert_huggingface):
        names = table_names(tensors, form.canonical, ignore)
        if any(name.startswith(form.PREFIX) for name in names):
            return form, names
    raise ValueError(
        f"{tensors.path} holds no BERT: expected names that begin with 'bert/' (Google) or with "
        f"'bert.embeddings.' or 'embeddings.' (Hugging Face), found {shown(list(tensors)[:3])}"
    )


def _separate_copies(form: ModuleType, names: dict[str, str]) -> dict[str, str]:
    """Remove the tensors that Hugging Face stores twice from `names`.

    Returns:
        dict of the name of a copy in the file to the name of the original there.
    """
    copies: dict[str, str] = {}
    if form is bert_huggingface:
        for copy, name in bert_huggingface.COPIES.items():
            if copy in names:
                original = names.pop(copy)
                if name in names:
                    copies[original] = names[name]
                else:
                    names[name] = original
    return copies
