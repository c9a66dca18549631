"""A trained model from wherever it is: a run's folder or somebody's checkpoint."""

import os
import re
from dataclasses import dataclass


@dataclass
class LoadedBert:
    """`encoder` and `pretrainer` (Keras models; `pretrainer` may be None) and `tokenizer`."""

    encoder: object
    pretrainer: object
    tokenizer: object
    config: dict
    history: object = None


def load_bert(path):
    """Loads a BERT from a run's folder, a Google checkpoint or a Hugging Face folder.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp import convert, models
    from tfnlp.text import WordPieceTokenizer
    from tfnlp.training.run import is_run, restore_weights

    if not is_run(path):
        converted = convert.load_bert(path)
        return LoadedBert(
            converted.encoder, converted.pretrainer, converted.tokenizer, converted.config
        )
    config = _config(path, "bert")
    encoder = models.bert(**config["arguments"])
    pretrainer = models.bert_pretrainer(encoder, **config["heads"])
    _, history = restore_weights(path, pretrainer)
    tokenizer = WordPieceTokenizer(
        os.path.join(path, "vocab.txt"), lowercase=config["text"]["lowercase"]
    )
    return LoadedBert(encoder, pretrainer, tokenizer, config, history)


@dataclass
class LoadedElmo:
    """`encoder` and `pretrainer` (Keras models) and `words`, what the pretrainer predicts.

    A bilm-tf checkpoint has no list of words, and mostly no pretrainer: None.
    """

    encoder: object
    pretrainer: object
    words: list | None
    config: dict
    history: object = None


def load_elmo(path, dtype=None):
    """Loads an ELMo from a run's folder or from a bilm-tf (AllenNLP) checkpoint's.

    Args:
        path: the folder.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp import convert, models
    from tfnlp.text import read_words
    from tfnlp.training.run import is_run, restore_weights

    if not is_run(path):
        converted = convert.load_elmo(path, dtype=dtype)
        return LoadedElmo(converted.encoder, converted.pretrainer, None, converted.config)
    config = _config(path, "elmo")
    encoder = models.elmo(**config["arguments"], dtype=dtype)
    resets = config["training"]["reset"] != "never"
    pretrainer = models.elmo_pretrainer(encoder, **config["heads"], resets=resets)
    _, history = restore_weights(path, pretrainer)
    words = read_words(os.path.join(path, "vocab.txt"))
    return LoadedElmo(encoder, pretrainer, words, config["arguments"], history)


@dataclass
class LoadedGPT:
    """`encoder` and `pretrainer` (Keras models), `tokenizer`, `config`, the arguments of `gpt`, and
    `seq_length`, tokens a sequence in training (None of other people's checkpoints)."""

    encoder: object
    pretrainer: object
    tokenizer: object
    config: dict
    seq_length: int | None = None
    history: object = None


def load_gpt(path, dtype=None):
    """Loads a GPT or GPT-2 from a run's folder, OpenAI's files or a Hugging Face folder.

    Args:
        path: the folder.
        dtype: a Keras dtype policy; None takes the global one.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp import convert, models
    from tfnlp.text import gpt_tokenizer
    from tfnlp.training.run import is_run, restore_weights

    if not is_run(path):
        converted = convert.load_gpt(path, dtype=dtype)
        return LoadedGPT(
            converted.encoder, converted.pretrainer, converted.tokenizer, converted.config
        )
    config = _config(path, "gpt")
    encoder = models.gpt(**config["arguments"], dtype=dtype)
    pretrainer = models.gpt_pretrainer(encoder)
    _, history = restore_weights(path, pretrainer)
    tokenizer = gpt_tokenizer(os.path.join(path, "vocab"))
    length = config["training"]["seq_length"]
    return LoadedGPT(encoder, pretrainer, tokenizer, config["arguments"], length, history)


@dataclass
class LoadedTranslation:
    """`model`, its `decoder` (what a beam search needs), `tokenizer` and the run's `config`."""

    model: object
    decoder: object
    tokenizer: object
    config: dict
    history: object = None


def load_translation(path):
    """Loads a Transformer or seq2seq from a run's folder.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp import models
    from tfnlp.commands.run_config import TRANSLATION
    from tfnlp.text import gpt_tokenizer
    from tfnlp.training.run import read_config, restore_weights

    kind = read_config(path).get("model")
    if kind not in TRANSLATION:
        raise ValueError(f"{path} is no run of a model that translates, a transformer or seq2seq")
    config = _config(path, kind)
    make, decoder = {
        "transformer": (models.transformer, models.TransformerDecoder),
        "seq2seq": (models.seq2seq, models.Seq2SeqDecoder),
    }[kind]
    model = make(**config["arguments"])
    names = os.listdir(os.path.join(path, "checkpoints"))
    average = any(name.startswith("average-") for name in names)
    _, history = restore_weights(path, model, average=average)
    tokenizer = gpt_tokenizer(os.path.join(path, "vocab"))
    return LoadedTranslation(model, decoder(model, tokenizer.end_id), tokenizer, config, history)


@dataclass
class LoadedNNLM:
    """`model` and `pretrainer` (Keras models), `words`, their ids being those of the model, and the
    `config` of the run."""

    model: object
    pretrainer: object
    words: list
    config: dict
    history: object = None


def load_nnlm(path):
    """Loads an NNLM from a run's folder.

    Raises:
        FileNotFoundError, ValueError: one line that says what is missing or wrong.
    """
    from tfnlp import models
    from tfnlp.text import read_words
    from tfnlp.training.run import restore_weights

    config = _config(path, "nnlm")
    words = read_words(os.path.join(path, "vocab.txt"))
    if len(words) != config["arguments"]["vocab_size"]:
        raise ValueError(
            f"{path} has {len(words)} words in vocab.txt, but a model of "
            f"{config['arguments']['vocab_size']}; do they belong together?"
        )
    model = models.nnlm(**config["arguments"])
    pretrainer = models.nnlm_pretrainer(model)
    _, history = restore_weights(path, pretrainer)
    return LoadedNNLM(model, pretrainer, words, config, history)


def kind_of(path):
    """The kind of model in the folder `path`: "bert", "elmo", "gpt", of a run also "seq2seq",
    "transformer", "word2vec" or "nnlm" and, fine-tuned, "task"; "vectors": a file of word vectors.

    A run says so itself; `*.hdf5` is bilm-tf's (AllenNLP's), the files of `_GPT` or such a
    `model_type` are a GPT's; any other checkpoint is a BERT's.
    """
    from tfnlp.commands.run_config import run_kind
    from tfnlp.commands.word_vectors import is_vectors
    from tfnlp.training.run import is_run, read_config

    if is_run(path):
        return run_kind(path, read_config(path))
    if os.path.exists(os.path.join(path, "runs.json")):
        return "task"
    if is_vectors(path):
        return "vectors"
    names = os.listdir(path) if os.path.isdir(path) else []
    if any(name.endswith(".hdf5") for name in names):
        return "elmo"
    if any(name in _GPT for name in names):
        return "gpt"
    if "config.json" in names:
        # Whether it makes sense is for those to say who load it.
        with open(os.path.join(path, "config.json"), encoding="utf-8", errors="replace") as file:
            if re.search(r'"model_type":\s*"(openai-gpt|gpt2)"', file.read()):
                return "gpt"
    return "bert"


# Files that lie beside OpenAI's weights.
_GPT = ("params_shapes.json", "params_0.npy", "hparams.json", "encoder.json")


def _config(path, model):
    """The configuration of a run, which must be one of `model`."""
    from tfnlp.commands.run_config import check_run, run_kind
    from tfnlp.training.run import read_config

    config = read_config(path)
    kind = run_kind(path, config)
    if kind != model:
        raise ValueError(f"{path} is a run of {kind}, expected one of {model}")
    check_run(path, config)
    return config
