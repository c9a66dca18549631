"""Published BERT checkpoints as tfnlp models."""

import functools
import os
import pathlib
from typing import TYPE_CHECKING

import numpy as np

from tfnlp.convert.bert import google as bert_google
from tfnlp.convert.bert import huggingface as bert_huggingface
from tfnlp.convert.bert.config import read_config, weight_shapes
from tfnlp.convert.formats.folders import find_one, find_weights
from tfnlp.convert.formats.mapping import assign, check_tensors, stored_shapes, weights_from_tensors
from tfnlp.convert.formats.tensors import shown
from tfnlp.convert.formats.weight_files import open_tensors
from tfnlp.convert.pretrained import Pretrained
from tfnlp.convert.vocabulary import is_lowercase, vocabulary_lines
from tfnlp.models import bert, bert_pretrainer

if TYPE_CHECKING:
    from tfnlp.text import WordPieceTokenizer


def load_bert(
    path,
    *,
    activation=None,
    dropout=None,
    attention_dropout=None,
    seq_length=None,
    max_predictions=None,
    dtype=None,
    config_file=None,
    vocab=None,
    lowercase=None,
    ignore=(),
):
    """Loads a BERT that somebody else trained: Google's format or Hugging Face's.

    The file is compared with its configuration tensor by tensor before a model is built, and
    read whole before a weight is assigned: an error leaves nothing half-loaded.

    Args:
        path: a local folder, or a weight file in it: the prefix of a TensorFlow checkpoint,
            `.safetensors` or `pytorch_model.bin` (or the index of its shards), `.npz`. Beside it
            lie `bert_config.json` or `config.json`, and mostly `vocab.txt`.
        activation: "gelu" (erf), "gelu_tanh" or "relu" instead of what the configuration says.
        dropout, attention_dropout: rates instead of the configuration's.
        seq_length, dtype: as in `bert`.
        max_predictions: as in `bert_pretrainer`.
        config_file: the configuration, if it lies elsewhere.
        vocab: the vocabulary, if it lies elsewhere.
        lowercase: whether the vocabulary is for lower-cased text, if what is found out
            (see `tfnlp.convert.vocabulary.is_lowercase`) is wrong.
        ignore: beginnings of the names of tensors to leave out, such as a classifier's.

    Returns:
        A `Pretrained`; its `pretrainer` has those heads that the checkpoint holds.

    Raises:
        FileNotFoundError: for a file that is not there.
        ValueError: for a damaged file, a configuration that makes no sense, tensors that are
            missing, surplus or misshapen (all listed in one message), a vocabulary that is
            longer than the embedding table.
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
    weights, pooler, masked_lm, next_sentence = _read(
        tensors, config, config_path, [ignore] if isinstance(ignore, str) else list(ignore)
    )
    config["pooler"] = pooler
    encoder = model = bert(**config, seq_length=seq_length, dtype=dtype)
    pretrainer = None
    if masked_lm or next_sentence:
        pretrainer = model = bert_pretrainer(
            encoder,
            activation=config["activation"],
            norm_epsilon=config["norm_epsilon"],
            initializer_range=config["initializer_range"],
            masked_lm=masked_lm,
            next_sentence=next_sentence,
            max_predictions=max_predictions,
        )
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


def _tokenizer(vocabulary: str | None, lowercase: bool | None) -> "WordPieceTokenizer":
    from tfnlp.text import WordPieceTokenizer

    if vocabulary is None:
        raise ValueError("the checkpoint has no vocab.txt beside it; pass vocab= to load_bert")
    return WordPieceTokenizer(vocabulary, lowercase=lowercase)


def _vocabulary(folder, vocab, lowercase, vocab_size):
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


def _read(tensors, config, config_path, ignore):
    """Checks the file against the configuration, then reads it: the weights, and which of
    pooler, masked-LM head and next-sentence head there are."""
    form, names = _recognise(tensors, ignore)
    held = len({found[1] for found in map(form.LAYER.match, names) if found})
    if held != config["num_layers"]:
        # First, because a table of a billion layers could not even be listed.
        raise ValueError(
            f"{config_path} asks for num_hidden_layers={config['num_layers']}, but "
            f"{tensors.path} holds {held} layers; do the files belong together?"
        )
    copies = _separate_copies(form, names)

    def has(prefix):
        return any(name.startswith(prefix) for name in names)

    masked_lm, next_sentence = has(form.MASKED_LM), has(form.NEXT_SENTENCE)
    pooler = has(form.POOLER) or next_sentence  # the next-sentence head needs the pooler
    rows = form.rows(config["num_layers"], pooler, masked_lm, next_sentence)
    shapes = weight_shapes({**config, "pooler": pooler}, masked_lm, next_sentence)
    hint = f"sizes from {config_path}; `ignore` leaves surplus tensors out"
    check_tensors(tensors, names, stored_shapes(rows, shapes), hint)
    for copy, name in copies.items():
        if not np.array_equal(tensors[copy], tensors[name]):
            raise ValueError(
                f"{tensors.path} has different values in {shown(copy)} and {shown(name)}; tfnlp's "
                "BERT shares one array between them"
            )
    weights = weights_from_tensors(rows, lambda name: tensors[names[name]])
    return weights, pooler, masked_lm, next_sentence


def _recognise(tensors, ignore):
    """The module of the file's format, and a dict of its names there to those in the file."""
    kept = [name for name in tensors if not any(name.startswith(i) for i in ignore)]
    for form in (bert_google, bert_huggingface):
        names = {}
        for original in kept:
            name = form.canonical(original)
            if name in names:
                raise ValueError(
                    f"{tensors.path} holds one tensor twice, as {shown(names[name])} and as "
                    f"{shown(original)}; `ignore` can leave one out"
                )
            if name is not None:
                names[name] = original
        if any(name.startswith(form.PREFIX) for name in names):
            return form, names
    raise ValueError(
        f"{tensors.path} holds no BERT: expected names that begin with 'bert/' (Google) or with "
        f"'bert.embeddings.' or 'embeddings.' (Hugging Face), found {shown(kept[:3])}"
    )


def _separate_copies(form, names):
    """Takes out of `names` what Hugging Face stores twice; a dict of copy to original names."""
    copies = {}
    if form is bert_huggingface:
        for copy, name in bert_huggingface.COPIES.items():
            if copy in names:
                original = names.pop(copy)
                if name in names:
                    copies[original] = names[name]
                else:
                    names[name] = original
    return copies
