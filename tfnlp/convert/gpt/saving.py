"""tfnlp's GPT and GPT-2 for others to load: a Hugging Face folder."""

import json
import os
import shutil
import uuid

from safetensors import SafetensorError
from safetensors.numpy import save_file

from tfnlp.convert.formats.mapping import tensors_from_weights
from tfnlp.convert.formats.tensors import reason
from tfnlp.convert.gpt import huggingface as gpt_huggingface
from tfnlp.convert.gpt.config import ACTIVATIONS, MODEL_TYPES, NUMBERS, SIZES, config_of

# What `save_gpt` writes; the last three with a tokenizer only.
FILES = ("config.json", "model.safetensors", "vocab.json", "merges.txt", "tokenizer_config.json")
_CLASSES = {False: "OpenAIGPT", True: "GPT2"}  # by norm_first
_TOKENIZERS = {"gpt": "OpenAIGPTTokenizer", "gpt2": "GPT2Tokenizer"}


def save_gpt(directory, model, tokenizer=None, overwrite=False):
    """Writes `model.safetensors`, `config.json` and, with a tokenizer, `vocab.json`, `merges.txt`
    and `tokenizer_config.json`, the folder that `from_pretrained` and `load_gpt` read.

    A GPT is written as `openai-gpt`, a model with `norm_first` as `gpt2`; a pretrainer as the
    class with the language-model head, an encoder as the one without. The head's table is the
    input's and is stored once.

    Args:
        directory: a folder that does not exist yet, or is empty.
        model: an encoder made by `gpt` or a model made by `gpt_pretrainer`.
        tokenizer: a `GPTTokenizer` or `GPT2Tokenizer`.
        overwrite: replace a folder that holds what `save_gpt` writes and nothing else.

    Raises:
        ValueError: if `model` is not a GPT or Hugging Face's can't hold it, or the tokenizer has
            more tokens than its table.
        FileExistsError: if `directory` exists and may not be replaced.
        OSError: if it can't be written; nothing half-written stays.
    """
    config = config_of(model)
    head = "lm_logits" in model.output
    stated = _huggingface_config(config, head, tokenizer)
    if tokenizer is not None and tokenizer.vocab_size > config["vocab_size"]:
        raise ValueError(
            f"tokenizer has {tokenizer.vocab_size} tokens, but the model's vocab_size is "
            f"{config['vocab_size']}"
        )
    rows = gpt_huggingface.rows(config)
    tensors = tensors_from_weights(rows, {w.path: w.numpy() for w in model.weights})
    prefix = "transformer." if head else ""
    directory = os.path.realpath(os.fspath(directory))
    _check_free(directory, overwrite)
    partial, old = (f"{directory}.{word}-{uuid.uuid4().hex[:8]}" for word in ("partial", "old"))
    try:
        os.makedirs(partial)
        save_file(
            {prefix + name: array for name, array in tensors.items()},
            os.path.join(partial, "model.safetensors"),
            metadata={"format": "pt"},  # `from_pretrained` refuses a file without it
        )
        _write_json(os.path.join(partial, "config.json"), stated)
        if tokenizer is not None:
            _write_tokenizer(partial, tokenizer, config["max_positions"])
        if os.path.exists(directory):
            os.rename(directory, old)
        os.rename(partial, directory)
    except (OSError, SafetensorError) as error:
        if os.path.exists(old):
            os.rename(old, directory)
        raise OSError(f"{directory} could not be written ({reason(error)})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if os.path.exists(directory):
            shutil.rmtree(old, ignore_errors=True)


def _huggingface_config(config, head, tokenizer):
    norm_first, hidden = config["norm_first"], config["hidden_size"]
    wide = config["intermediate_size"]
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS[norm_first].items())}
    if norm_first:
        activations["gelu_tanh"] = "gelu_new"  # what every version of transformers knows
    if config["activation"] not in activations:
        raise ValueError(
            f"activation={config['activation']!r} has no name in Hugging Face's "
            f"{MODEL_TYPES[norm_first]!r}; expected one of {sorted(activations)}"
        )
    if not norm_first and wide != 4 * hidden:
        raise ValueError(
            f"intermediate_size={wide} has no place in Hugging Face's 'openai-gpt'; expected "
            f"{4 * hidden}, 4 times hidden_size"
        )
    end = None if tokenizer is None else tokenizer.end_id
    stated = {
        "architectures": [_CLASSES[norm_first] + ("LMHeadModel" if head else "Model")],
        "model_type": MODEL_TYPES[norm_first],
        **{theirs: config[ours] for theirs, ours in SIZES.items()},
        "n_ctx": config["max_positions"],  # the name in early versions
        **{theirs: config[ours] for theirs, (ours, *_) in NUMBERS.items()},
        "embd_pdrop": config["dropout"],
        "activation_function" if norm_first else "afn": activations[config["activation"]],
        "bos_token_id": end,
        "eos_token_id": end,
    }
    if norm_first:
        stated["n_inner"] = wide
    return stated


def _write_tokenizer(folder, tokenizer, max_positions):
    from tfnlp.text import write_bpe

    write_bpe(folder, tokenizer.vocabulary, tokenizer.merges)
    # Hugging Face calls the same two files by other names.
    os.rename(os.path.join(folder, "encoder.json"), os.path.join(folder, "vocab.json"))
    os.rename(os.path.join(folder, "vocab.bpe"), os.path.join(folder, "merges.txt"))
    settings = {
        "tokenizer_class": _TOKENIZERS[tokenizer.kind],
        "model_max_length": max_positions,
    }
    _write_json(os.path.join(folder, "tokenizer_config.json"), settings)


def _check_free(directory, overwrite):
    if not os.path.exists(directory):
        return
    held = sorted(os.listdir(directory)) if os.path.isdir(directory) else None
    if held is None or set(held) - set(FILES):
        other = f" and holds {sorted(set(held) - set(FILES))[:5]}" if held else ""
        raise FileExistsError(f"{directory} exists{other}; choose another folder")
    if held and not overwrite:
        raise FileExistsError(f"{directory} holds {held}; choose another folder, or overwrite=True")


def _write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
