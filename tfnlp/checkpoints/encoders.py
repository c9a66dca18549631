"""Checkpoints of encoders: published ones as tfnlp models, and models as Hugging Face folders."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from safetensors.numpy import save_file

from tfnlp.checkpoints.encoder_config import config_of, read_config, written_config
from tfnlp.checkpoints.folders import find_one, find_weights, new_folder
from tfnlp.checkpoints.formats.json_files import read_json, write_json
from tfnlp.checkpoints.formats.tensors import Tensors
from tfnlp.checkpoints.formats.weight_files import open_tensors
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
from tfnlp.checkpoints.sentence_transformers import (
    SENTENCE_FILES,
    SentenceSettings,
    write_sentence_settings,
)
from tfnlp.models.shapes import weight_shapes
from tfnlp.text.lines import shown

if TYPE_CHECKING:
    from tfnlp.checkpoints.encoder_files import EncoderFiles, TensorNames

_TABLE = "masked_lm_table"  # the layer of a masked LM whose table is not the encoder's
_MOST_SHARED = 1000  # layers that share their weights: the file does not hold their number
MODEL_FILES = ("config.json", "model.safetensors")


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
    tied = read_json(config_path).get("tie_word_embeddings", True)
    weights, heads = _read(files, tensors, config, config_path, ignore, bool(tied))
    encoder = model = files.encoder(**config, seq_length=seq_length, dtype=dtype)
    pretrainer = None
    if any(heads.values()):
        pretrainer = model = files.pretrainer(
            encoder, files.of_heads(config), heads, max_predictions
        )
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
    tied: bool,
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

    def has(*beginnings: str) -> bool:
        return any(name.startswith(beginnings) for name in names)

    heads = {head: has(*beginnings) for head, beginnings in form.heads.items()}
    heads[UNTIED] = not tied and heads.get("masked_lm", False)
    copies = {}
    if heads[UNTIED]:
        # The bias beside the table is the one that counts; the other may be a left-over.
        names |= {form.copies[name]: names.pop(name) for name in form.biases if name in names}
    else:
        copies = separate_copies(form.copies, names)
    held = frozenset(head for head, there in heads.items() if there)
    if form.pooler is not None:
        config["pooler"] = has(form.pooler) or not held.isdisjoint(files.needs_pooler)

    def build(**arguments: Any) -> keras.Model:
        encoder = files.encoder(**arguments)
        return files.pretrainer(encoder, files.of_heads(config), heads, None) if held else encoder

    pairs = "" if held.isdisjoint(files.needs_pooler) else ", 2 of sentence pairs whatever id2label"
    hint = f"sizes from {config_path}{pairs}; `ignore` leaves surplus tensors out"
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


def encoder_tensors(
    files: EncoderFiles, form: TensorNames, model: keras.Model
) -> dict[str, np.ndarray]:
    """Return a dict of published names to float32 arrays.

    With heads the encoder's names begin with the format's `base`, as in the classes with heads.
    """
    config = config_of(files, model)
    heads = _heads(form, model)
    _check_head(files, model, config)
    layers = {layer.name for layer in model.layers}
    untied = frozenset([UNTIED]) if _TABLE in layers else frozenset()
    tensors = tensors_from_weights(form.rows(config, untied.union(heads)), model)
    if not heads:
        return tensors
    if untied:
        tensors |= {name: tensors[form.copies[name]] for name in form.biases}
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
    sentence_layers: Sequence[keras.layers.Layer] = (),
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
        sentence_layers: the layers of its modules.

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
    if _TABLE in {layer.name for layer in model.layers}:
        stated["tie_word_embeddings"] = False
    tensors = encoder_tensors(files, files.huggingface, model)
    names = (*MODEL_FILES, *files.tokenizer.names, *SENTENCE_FILES)
    with new_folder(directory, names, overwrite) as folder:
        write_model(folder, stated, tensors)
        length = config["max_positions"]
        if sentences is not None:
            write_sentence_settings(folder, sentences, sentence_layers, config["hidden_size"])
            length = sentences.max_length or length
        if tokenizer is not None:
            files.tokenizer.write(folder, tokenizer, length)


def _check_head(files: EncoderFiles, model: keras.Model, config: Mapping[str, Any]) -> None:
    """Refuse a masked-LM head with other numbers than that of the published code."""
    for head in (layer for layer in model.layers if layer.name == "masked_lm_head"):
        for name in ("activation", "norm_epsilon"):
            ours, theirs = getattr(head, name), files.of_heads(config).get(name)
            if theirs is not None and ours != theirs:
                raise ValueError(
                    f"the masked-LM head has {name}={ours!r}; that of a published {files.title} "
                    f"whose blocks have {config['activation']!r} has {theirs!r}"
                )


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
