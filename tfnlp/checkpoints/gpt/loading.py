"""Published GPT and GPT-2 checkpoints as tfnlp models."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfnlp.checkpoints.encoders.loading import recognise
from tfnlp.checkpoints.folders import find_one, find_weights
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.gpt import huggingface as gpt_huggingface
from tfnlp.checkpoints.gpt import openai_gpt1
from tfnlp.checkpoints.gpt.config import read_config, read_hparams
from tfnlp.checkpoints.gpt.openai_gpt2 import OPENAI_GPT2
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
from tfnlp.checkpoints.tokenizers.byte_pairs import find_byte_pairs
from tfnlp.models import gpt, gpt_pretrainer
from tfnlp.models.shapes import weight_shapes
from tfnlp.text import gpt_tokenizer

Loaded = tuple[dict[str, Any], dict[str, np.ndarray]]  # configuration and weights


def load_gpt(
    path: str | os.PathLike,
    *,
    dropout: float | None = None,
    attention_dropout: float | None = None,
    seq_length: int | None = None,
    dtype: Any = None,
    vocab: str | os.PathLike | None = None,
    ignore: str | Sequence[str] = (),
) -> Pretrained:
    """Load a published GPT or GPT-2 checkpoint: OpenAI's formats or Hugging Face's.

    The file is compared with its configuration tensor by tensor before a model is built, and
    read whole before a weight is assigned: an error leaves nothing half-loaded.

    OpenAI's files state no dropout: 0.1 is taken, as in GPT, section 4.1. Of Hugging Face's rates
    `resid_pdrop` becomes `dropout`, `attn_pdrop` `attention_dropout`.

    Args:
        path: a local folder, or a weight file in it. OpenAI's GPT: `params_shapes.json`,
            `params_0.npy`, ... (and `hparams.json` with `n_head` where it is not 12). OpenAI's
            GPT-2: a TensorFlow checkpoint and `hparams.json`. Hugging Face's `openai-gpt` and
            `gpt2`: `.safetensors` or `pytorch_model.bin` (or the index of its shards), or `.npz`,
            and `config.json`. Load only TensorFlow checkpoints that you trust: a forged index file
            can end the process.
        dropout, attention_dropout: rates instead of the configuration's.
        seq_length, dtype: as in `gpt`.
        vocab: folder of the vocabulary, if it is elsewhere: `encoder.json` and `vocab.bpe`,
            `encoder_bpe_40000.json` and `vocab_40000.bpe`, `vocab.json` and `merges.txt`, or
            `tokenizer.json`.
        ignore: beginnings of the names of tensors to leave out, such as a classifier's.

    Returns:
        A `Pretrained`; the head of its `pretrainer` has no weights of its own. The head of a task
        is left out, and `left_out` names the class.

    Raises:
        FileNotFoundError: for a file that does not exist.
        ValueError: for a damaged file, a configuration that is invalid or that `gpt` can't have,
            tensors that are missing, surplus or misshapen (all listed in one message), an output
            table that differs from the input's.
    """
    path = pathlib.Path(path)
    ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    folder, head = openai_gpt1.find_pieces(path), None
    if folder is None:
        weights_path = find_weights(path)
        folder = weights_path.parent
        config_path = folder / gpt_huggingface.CONFIGURATION
        if config_path.is_file():
            kinds = gpt_huggingface.HEADS.values()
            head = head_of(config_path, [head for kind in kinds for head in kind.values()])
        if head is not None:
            ignore += tuple(head.beginnings())
        config, weights = _read(open_tensors(weights_path), folder, ignore)
    else:
        config, weights = _read_pieces(folder, ignore)
    found = find_byte_pairs(gpt_tokenizer, folder, vocab, None, config["vocab_size"], "load_gpt")
    for name, rate in (("dropout", dropout), ("attention_dropout", attention_dropout)):
        if rate is not None:
            config[name] = rate
    encoder = gpt(**config, seq_length=seq_length, dtype=dtype)
    pretrainer = gpt_pretrainer(encoder)
    assign(encoder, weights)
    return Pretrained(
        encoder,
        pretrainer,
        config,
        make_tokenizer=found.make,
        vocabulary=found.path,
        path=str(path),
        left_out=None if head is None else head.architecture,
    )


def _read_pieces(folder: pathlib.Path, ignore: Sequence[str]) -> Loaded:
    tensors = openai_gpt1.open_pieces(folder)
    config = openai_gpt1.read_sizes(folder, tensors)
    names = table_names(tensors, str, ignore)
    hint = f"the names follow from the order in {openai_gpt1.SHAPES}"
    shapes = weight_shapes(gpt, config)
    return config, read_weights(tensors, names, openai_gpt1.rows(config), shapes, hint)


def _read(tensors: Tensors, folder: pathlib.Path, ignore: Sequence[str]) -> Loaded:
    """Read a checkpoint of any other format."""
    by_order = gpt_huggingface.NAMES
    formats = (OPENAI_GPT2, by_order[True], by_order[False])
    form, names = recognise(formats, "GPT", tensors, ignore)
    file = openai_gpt1.CONFIGURATION if form is OPENAI_GPT2 else gpt_huggingface.CONFIGURATION
    config_path = find_one(folder, (file,), "configuration")
    if form is OPENAI_GPT2:
        config = read_hparams(config_path)
    else:
        config = read_config(config_path, norm_first=form is by_order[True])
    check_layers(tensors, names, form.layer, config_path, "n_layer", config["num_layers"])
    copies = separate_copies(form.copies, names)
    hint = f"sizes from {config_path}; `ignore` leaves surplus tensors out"
    rows, shapes = form.rows(config, frozenset()), weight_shapes(gpt, config)
    weights = read_weights(tensors, names, rows, shapes, hint)
    check_copies(tensors, copies, "tfnlp's GPT shares one array between them")
    return config, weights
