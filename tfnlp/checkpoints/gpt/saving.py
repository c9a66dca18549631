"""tfnlp's GPT and GPT-2 as a Hugging Face folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import keras

from tfnlp.checkpoints.config_values import written_activation
from tfnlp.checkpoints.encoders.saving import MODEL_FILES, check_tokenizer, write_model
from tfnlp.checkpoints.folders import new_folder
from tfnlp.checkpoints.gpt import huggingface as gpt_huggingface
from tfnlp.checkpoints.gpt.config import ACTIVATIONS, MODEL_TYPES, NUMBERS, SIZES, config_of
from tfnlp.checkpoints.mapping import tensors_from_weights
from tfnlp.checkpoints.tokenizers.byte_pairs import FILES as TOKENIZER_FILES
from tfnlp.checkpoints.tokenizers.byte_pairs import write_byte_pairs
from tfnlp.checkpoints.tokenizers.writing import write_config, write_gpt_json
from tfnlp.text import GPT2Tokenizer, GPTTokenizer

# What `save_gpt` writes; the last four with a tokenizer only.
FILES = (*MODEL_FILES, *TOKENIZER_FILES)
CLASSES = {False: "OpenAIGPT", True: "GPT2"}  # by norm_first
_TOKENIZERS = {"gpt": "OpenAIGPTTokenizer", "gpt2": "GPT2Tokenizer"}


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
    rows = gpt_huggingface.rows(config)
    prefix = "transformer." if head else ""
    tensors = {prefix + name: a for name, a in tensors_from_weights(rows, model).items()}
    with new_folder(directory, FILES, overwrite) as folder:
        write_model(folder, stated, tensors)
        if tokenizer is not None:
            write_byte_pairs(folder, tokenizer)
            write_gpt_json(folder, tokenizer.vocabulary, tokenizer.merges, tokenizer.keeps_spaces)
            write_config(folder, _TOKENIZERS[tokenizer.kind], config["max_positions"], {})


def huggingface_config(
    config: Mapping[str, Any], architecture: str, tokenizer: GPTTokenizer | GPT2Tokenizer | None
) -> dict[str, Any]:
    """Return the contents of `config.json`; `config` are the arguments of `gpt`."""
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
