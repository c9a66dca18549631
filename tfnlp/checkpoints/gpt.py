"""Published GPT and GPT-2 checkpoints as tfnlp models, and models as Hugging Face folders."""

from __future__ import annotations

import inspect
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints import gpt_config, gpt_openai
from tfnlp.checkpoints.encoder_config import written_activation
from tfnlp.checkpoints.encoders import MODEL_FILES, check_tokenizer, recognise, write_model
from tfnlp.checkpoints.folders import find_one, find_weights, new_folder
from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
from tfnlp.checkpoints.gpt_config import (
    ACTIVATIONS,
    MODEL_TYPES,
    NUMBERS,
    SIZES,
    config_of,
    read_config,
    read_hparams,
    scale_queries,
)
from tfnlp.checkpoints.gpt_openai import OPENAI_GPT2
from tfnlp.checkpoints.heads import head_of
from tfnlp.checkpoints.mapping import (
    UNTIED,
    assign,
    check_copies,
    check_layers,
    read_weights,
    separate_copies,
    table_names,
    tensors_from_weights,
)
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.tokenizers.byte_pairs import FILES as TOKENIZER_FILES
from tfnlp.checkpoints.tokenizers.byte_pairs import (
    find_byte_pairs,
    write_byte_pairs,
    write_gpt_json,
)
from tfnlp.checkpoints.tokenizers.tokenizer_json import write_config, write_pipeline
from tfnlp.models import gpt, gpt_pretrainer
from tfnlp.models.shapes import weight_shapes
from tfnlp.text import GPT2Tokenizer, GPTTokenizer, PipelineTokenizer, gpt_tokenizer

Loaded = tuple[dict[str, Any], dict[str, np.ndarray], bool]  # configuration, weights, tied head

# What `save_gpt` writes; the last four with a tokenizer only.
FILES = (*MODEL_FILES, *TOKENIZER_FILES)
CLASSES = {False: "OpenAIGPT", True: "GPT2"}  # by norm_first
_TOKENIZERS = {"gpt": "OpenAIGPTTokenizer", "gpt2": "GPT2Tokenizer"}


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
        A `Pretrained`; the head of its `pretrainer` has a table of its own only if the checkpoint
        holds one. The head of a task is left out, and `left_out` names the class.

    Raises:
        FileNotFoundError: for a file that does not exist.
        ValueError: for a damaged file, a configuration that is invalid or that `gpt` can't have,
            tensors that are missing, surplus or misshapen (all listed in one message), an output
            table that differs from the input's.
    """
    path = pathlib.Path(path)
    ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    folder, head = gpt_openai.find_pieces(path), None
    if folder is None:
        weights_path = find_weights(path)
        folder = weights_path.parent
        config_path = folder / gpt_config.CONFIGURATION
        if config_path.is_file():
            kinds = gpt_config.HEADS.values()
            head = head_of(config_path, [head for kind in kinds for head in kind.values()])
        if head is not None:
            ignore += tuple(head.beginnings())
        config, weights, tied = _read(open_tensors(weights_path), folder, ignore)
    else:
        config, weights, tied = _read_pieces(folder, ignore)
    found = find_byte_pairs(gpt_tokenizer, folder, vocab, None, config["vocab_size"], "load_gpt")
    for name, rate in (("dropout", dropout), ("attention_dropout", attention_dropout)):
        if rate is not None:
            config[name] = rate
    encoder = gpt(**config, seq_length=seq_length, dtype=dtype)
    pretrainer = gpt_pretrainer(encoder, tied)
    assign(encoder if tied else pretrainer, weights)
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
    tensors = gpt_openai.open_pieces(folder)
    config = gpt_openai.read_sizes(folder, tensors)
    names = table_names(tensors, str, ignore)
    hint = f"the names follow from the order in {gpt_openai.SHAPES}"
    shapes = weight_shapes(gpt, config)
    return config, read_weights(tensors, names, gpt_openai.rows(config), shapes, hint), True


def _read(tensors: Tensors, folder: pathlib.Path, ignore: Sequence[str]) -> Loaded:
    """Read a checkpoint of any other format."""
    by_order = gpt_config.NAMES
    formats = (OPENAI_GPT2, by_order[True], by_order[False])
    form, names = recognise(formats, "GPT", tensors, ignore)
    file = gpt_openai.CONFIGURATION if form is OPENAI_GPT2 else gpt_config.CONFIGURATION
    config_path = find_one(folder, (file,), "configuration")
    if form is OPENAI_GPT2:
        config = read_hparams(config_path)
    else:
        config = read_config(config_path, norm_first=form is by_order[True])
    check_layers(tensors, names, form.layer, config_path, "n_layer", config["num_layers"])
    tied = read_json(config_path).get("tie_word_embeddings", True) or gpt_config.HEAD not in names
    copies = separate_copies(form.copies, names) if tied else {}
    hint = f"sizes from {config_path}; `ignore` leaves surplus tensors out"

    def build(**arguments: Any) -> keras.Model:
        return gpt_pretrainer(gpt(**arguments), bool(tied))

    rows = form.rows(config, frozenset() if tied else frozenset([UNTIED]))
    weights = read_weights(tensors, names, rows, weight_shapes(build, config), hint)
    check_copies(tensors, copies, "tfnlp's GPT shares one array between them")
    scale_queries(config_path, config, weights)
    return config, weights, bool(tied)


def save_gpt(
    directory: str | os.PathLike,
    model: keras.Model,
    tokenizer: GPTTokenizer | GPT2Tokenizer | None = None,
    overwrite: bool = False,
) -> None:
    """Write the folder that `from_pretrained` and `load_gpt` read.

    It holds `model.safetensors`, `config.json` and, with a tokenizer, `vocab.json`, `merges.txt`,
    `tokenizer.json` and `tokenizer_config.json`.

    A GPT is written as `openai-gpt`, a model with `norm_first` as `gpt2`; a pretrainer as the
    class with the language-model head, an encoder as the one without. The head's table is the
    input's and is stored once.

    Args:
        directory: a folder that does not exist yet, or is empty.
        model: an encoder made by `gpt` or a model made by `gpt_pretrainer`.
        tokenizer: a `GPTTokenizer` or `GPT2Tokenizer`.
        overwrite: replace a folder that holds files of `save_gpt` and nothing else.

    Raises:
        ValueError: if `model` is not a GPT or Hugging Face's format can't hold it, or the
            tokenizer has more tokens than its table.
        FileExistsError: if `directory` exists and may not be replaced.
        OSError: if it can't be written; what was there before is unchanged.
    """
    config = config_of(model)
    head = "lm_logits" in model.output
    architecture = CLASSES[config["norm_first"]] + ("LMHeadModel" if head else "Model")
    stated = huggingface_config(config, architecture, tokenizer)
    check_tokenizer(tokenizer, config)
    rows = gpt_config.rows(config)
    prefix = "transformer." if head else ""
    tensors = {prefix + name: a for name, a in tensors_from_weights(rows, model).items()}
    if gpt_config.TABLE in {layer.name for layer in model.layers}:
        stated["tie_word_embeddings"] = False
        tensors[gpt_config.HEAD] = model.get_layer(gpt_config.TABLE).embeddings.numpy()
    with new_folder(directory, FILES, overwrite) as folder:
        write_model(folder, stated, tensors)
        if tokenizer is not None:
            _write_tokenizer(folder, tokenizer, config["max_positions"])


def _write_tokenizer(folder: str, tokenizer: Any, max_length: int) -> None:
    if isinstance(tokenizer, PipelineTokenizer):
        return write_pipeline(folder, tokenizer, max_length)
    write_byte_pairs(folder, tokenizer)
    own = tokenizer.vocabulary, tokenizer.merges, tokenizer.keeps_spaces
    write_gpt_json(folder, *own, marks=tokenizer.marks)
    write_config(folder, _TOKENIZERS[tokenizer.kind], max_length, {})


def huggingface_config(
    config: Mapping[str, Any], architecture: str, tokenizer: GPTTokenizer | GPT2Tokenizer | None
) -> dict[str, Any]:
    """Return the contents of `config.json`; `config` are arguments of `gpt`, which has the rest."""
    usual = {name: p.default for name, p in inspect.signature(gpt).parameters.items()}
    config = {**usual, **config}
    norm_first, hidden = config["norm_first"], config["hidden_size"]
    wide = config["intermediate_size"]
    kind = MODEL_TYPES[norm_first]
    activation = written_activation(config["activation"], ACTIVATIONS[norm_first], f"{kind!r}")
    if not norm_first and wide != 4 * hidden:
        raise ValueError(
            f"intermediate_size={wide} has no place in Hugging Face's 'openai-gpt'; expected "
            f"{4 * hidden}, 4 times hidden_size"
        )
    end = None if tokenizer is None else tokenizer.end_id
    stated = {
        "architectures": [architecture],
        "model_type": kind,
        **{theirs: config[ours] for theirs, ours in SIZES.items()},
        "n_ctx": config["max_positions"],  # the name in early versions
        **{theirs: config[ours] for theirs, (ours, *_) in NUMBERS.items()},
        "embd_pdrop": config["dropout"],
        "activation_function" if norm_first else "afn": activation,
        "bos_token_id": end,
        "eos_token_id": end,
    }
    if norm_first:
        stated["n_inner"] = wide
    return stated
