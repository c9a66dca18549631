"""Published GPT and GPT-2 checkpoints as tfnlp models."""

import functools
import pathlib
from typing import TYPE_CHECKING

import numpy as np

from tfnlp.convert.formats.folders import find_one, find_weights
from tfnlp.convert.formats.mapping import assign, check_tensors, stored_shapes, weights_from_tensors
from tfnlp.convert.formats.tensors import shown
from tfnlp.convert.formats.weight_files import open_tensors
from tfnlp.convert.gpt import gpt2_openai
from tfnlp.convert.gpt import huggingface as gpt_huggingface
from tfnlp.convert.gpt import openai as gpt_openai
from tfnlp.convert.gpt.config import weight_shapes
from tfnlp.convert.pretrained import Pretrained
from tfnlp.models import gpt, gpt_pretrainer

if TYPE_CHECKING:
    from tfnlp.text import GPT2Tokenizer, GPTTokenizer


def load_gpt(
    path,
    *,
    dropout=None,
    attention_dropout=None,
    seq_length=None,
    dtype=None,
    vocab=None,
    ignore=(),
):
    """Loads a GPT or GPT-2 that somebody else trained: OpenAI's formats or Hugging Face's.

    The file is compared with its configuration tensor by tensor before a model is built, and
    read whole before a weight is assigned: an error leaves nothing half-loaded.

    OpenAI's codes say nothing of dropout beside the weights: 0.1 is taken, as in GPT, section 4.1.
    Of Hugging Face's rates `resid_pdrop` becomes `dropout`, `attn_pdrop` `attention_dropout`.

    Args:
        path: a local folder, or a weight file in it. OpenAI's GPT: `params_shapes.json`,
            `params_0.npy`, ... (and `hparams.json` with `n_head` where it is not 12). OpenAI's
            GPT-2: a TensorFlow checkpoint and `hparams.json`. Hugging Face's `openai-gpt` and
            `gpt2`: `.safetensors` or `pytorch_model.bin` (or the index of its shards), or `.npz`,
            and `config.json`.
        dropout, attention_dropout: rates instead of the configuration's.
        seq_length, dtype: as in `gpt`.
        vocab: folder of the vocabulary, if it lies elsewhere: `encoder.json` and `vocab.bpe`,
            `encoder_bpe_40000.json` and `vocab_40000.bpe`, or `vocab.json` and `merges.txt`.
        ignore: beginnings of the names of tensors to leave out, such as a classifier's.

    Returns:
        A `Pretrained`; the head of its `pretrainer` has no weights of its own.

    Raises:
        FileNotFoundError: for a file that is not there.
        ValueError: for a damaged file, a configuration that makes no sense or that `gpt` has no
            place for, tensors that are missing, surplus or misshapen (all listed in one message),
            an output table that is not the input's.
    """
    path = pathlib.Path(path)
    ignore = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    folder = gpt_openai.find_pieces(path)
    if folder is None:
        weights_path = find_weights(path)
        folder = weights_path.parent
        config, weights = _read(open_tensors(weights_path), folder, ignore)
    else:
        config, weights = _read_pieces(folder, ignore)
    vocabulary = _vocabulary(folder, vocab)
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
        make_tokenizer=functools.partial(_tokenizer, vocabulary, config["vocab_size"]),
        vocabulary=vocabulary,
        path=str(path),
    )


def _tokenizer(vocabulary: str | None, vocab_size: int) -> "GPTTokenizer | GPT2Tokenizer":
    from tfnlp.text import gpt_tokenizer, read_bpe

    if vocabulary is None:
        raise ValueError("the checkpoint has no vocabulary beside it; pass vocab= to load_gpt")
    tokens, merges = read_bpe(vocabulary)
    if len(tokens) > vocab_size:
        raise ValueError(
            f"the vocabulary in {vocabulary} has ids up to {len(tokens) - 1}, but the model's "
            f"vocab_size is {vocab_size}; it belongs to another checkpoint"
        )
    return gpt_tokenizer((tokens, merges))


def _vocabulary(folder, vocab):
    from tfnlp.text.byte_pairs.files import FILE_NAMES

    folder = folder if vocab is None else pathlib.Path(vocab)
    if any(all((folder / file).is_file() for file in pair) for pair in FILE_NAMES):
        return str(folder)
    if vocab is None:
        return None
    pairs = ", or ".join(" and ".join(pair) for pair in FILE_NAMES)
    raise FileNotFoundError(f"vocab {folder} holds no vocabulary; looked for {pairs}")


def _read_pieces(folder, ignore):
    """The configuration and the weights of OpenAI's GPT."""
    tensors = gpt_openai.open_pieces(folder)
    config = gpt_openai.read_sizes(folder, tensors)
    names = {name: name for name in tensors if not name.startswith(ignore)}
    hint = f"the names follow from the order in {gpt_openai.SHAPES}"
    return config, _weights(gpt_openai, tensors, names, config, hint)


def _read(tensors, folder, ignore):
    """The configuration and the weights of any other file."""
    form, names = _recognise(tensors, ignore)
    config_path = find_one(folder, (form.CONFIGURATION,), "configuration")
    config = form.configuration(config_path, names)
    held = len({found[1] for found in map(form.LAYER.match, names) if found})
    if held != config["num_layers"]:
        # First, because a table of a billion layers could not even be listed.
        raise ValueError(
            f"{config_path} asks for n_layer={config['num_layers']}, but {tensors.path} holds "
            f"{held} layers; do the files belong together?"
        )
    copy = _separate_head(form, names, config)
    hint = f"sizes from {config_path}; `ignore` leaves surplus tensors out"
    weights = _weights(form, tensors, names, config, hint)
    if copy and not np.array_equal(tensors[copy], weights["token_embedding/embeddings"]):
        raise ValueError(
            f"{tensors.path} has different values in {shown(copy)} and in the table of tokens; "
            "tfnlp's GPT shares one array between them"
        )
    return config, weights


def _weights(form, tensors, names, config, hint):
    """Checks the file against the configuration, then reads it: dict of weight path to array."""
    rows = form.rows(config)
    shapes = stored_shapes(rows, weight_shapes(config))
    expected = {name: form.stored_shape(name, shape) for name, shape in shapes.items()}
    check_tensors(tensors, names, expected, hint)
    return weights_from_tensors(rows, lambda name: tensors[names[name]].reshape(shapes[name]))


def _recognise(tensors, ignore):
    """The module of the file's format, and a dict of its names there to those in the file."""
    kept = [name for name in tensors if not name.startswith(ignore)]
    for form in (gpt2_openai, gpt_huggingface):
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
        if form.recognises(names):
            return form, names
    raise ValueError(
        f"{tensors.path} holds no GPT: expected 'model/wte' (OpenAI's GPT-2), 'wte.weight' or "
        f"'tokens_embed.weight' (Hugging Face's GPT-2 and GPT), found {shown(kept[:3])}"
    )


def _separate_head(form, names, config):
    """Takes the output table, which Hugging Face may store too, out of `names`: its name in the
    file if it is a second copy, None if it stands for the input's or there is none."""
    if form is not gpt_huggingface or gpt_huggingface.HEAD not in names:
        return None
    original = names.pop(gpt_huggingface.HEAD)
    table = gpt_huggingface.TOKENS[config["norm_first"]]
    if table in names:
        return original
    names[table] = original
    return None
