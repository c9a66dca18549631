"""tfnlp's BERT for others to load: as arrays by published names, or as a Hugging Face folder."""

import json
import os
import pathlib
import shutil
import uuid

from safetensors import SafetensorError
from safetensors.numpy import save_file

from tfnlp.convert.bert import google as bert_google
from tfnlp.convert.bert import huggingface as bert_huggingface
from tfnlp.convert.bert.config import ACTIVATIONS, NUMBERS, SIZES, config_of
from tfnlp.convert.formats.mapping import tensors_from_weights
from tfnlp.convert.formats.tensors import reason
from tfnlp.convert.vocabulary import vocabulary_lines


def google_tensors(model):
    """Dict of the names in Google's checkpoints to float32 arrays.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.

    Raises:
        ValueError: if `model` is not a BERT.
    """
    return _tensors(bert_google, model)


def huggingface_tensors(model):
    """Dict of Hugging Face's names to float32 arrays, kernels transposed as PyTorch has them.

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


def save_huggingface(model, directory, vocabulary=None, lowercase=None):
    """Writes `model.safetensors`, `config.json` and, with a vocabulary, `vocab.txt` and
    `tokenizer_config.json`, the folder that `from_pretrained` and `load_bert` read.

    Args:
        model: an encoder made by `bert` or a model made by `bert_pretrainer`.
        directory: a folder that does not exist yet, or is empty.
        vocabulary: path of the vocabulary file.
        lowercase: whether the vocabulary is for lower-cased text; needed with a vocabulary.

    Raises:
        ValueError: if `model` is not a BERT, the vocabulary is longer than its table, or
            `lowercase` is not given with it.
        FileExistsError: if `directory` exists and is not empty.
        OSError: if it can't be written; nothing half-written stays.
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
    directory = os.path.abspath(os.fspath(directory))
    if os.path.exists(directory) and not (os.path.isdir(directory) and not os.listdir(directory)):
        raise FileExistsError(f"{directory} exists; choose another folder")
    partial = f"{directory}.partial-{uuid.uuid4().hex[:8]}"
    try:
        os.makedirs(partial)
        save_file(
            huggingface_tensors(model),
            os.path.join(partial, "model.safetensors"),
            metadata={"format": "pt"},  # `from_pretrained` refuses a file without it
        )
        _write_json(os.path.join(partial, "config.json"), _huggingface_config(config, model))
        if vocabulary is not None:
            shutil.copyfile(vocabulary, os.path.join(partial, "vocab.txt"))
            _write_json(
                os.path.join(partial, "tokenizer_config.json"),
                {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"},
            )
        os.rename(partial, directory)  # takes the place of an empty folder
    except SafetensorError as error:
        raise OSError(f"{directory} could not be written ({reason(error)})") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _heads(model):
    names = {layer.name for layer in model.layers}
    return "masked_lm_head" in names, "next_sentence_head" in names


def _tensors(form, model):
    config = config_of(model)
    rows = form.rows(config["num_layers"], config["pooler"], *_heads(model))
    return tensors_from_weights(rows, {w.path: w.numpy() for w in model.weights})


def _huggingface_config(config, model):
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


def _write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
