"""What the `config.json` of a run may say: it becomes the arguments of functions that make models.

A config that was damaged or made up must not choose other arguments than a run writes, nor a model
that the weights beside it could not fill.
"""

import inspect
import math
import os

KINDS = ("bert", "elmo", "gpt")
TRANSLATION = ("seq2seq", "transformer")
VECTORS = ("word2vec", "nnlm")
_HEAD = ("dropout", "units", "lstm_layers", "embedding_size")  # of a task on features
_MOST_LAYERS = 1000  # of anything: more could not even be counted
_LAYERS = ("num_layers", "num_highway", "lstm_layers")
_FROM_NONE = ("num_highway", "lstm_layers", "texts", "choices")  # 0 makes sense
_MAY_BE_NONE = ("num_samples", "cell_clip", "projection_clip")
_RATES = ("dropout", "attention_dropout")
_ANY_SIGN = ("threshold", "mean", "deviation")


def check_run(directory, config):
    """Whether a model can be made of a run's config, and no larger one than its files can fill.

    Args:
        directory: of the run.
        config: what `tfnlp.training.run.read_config` gives.

    Raises:
        FileNotFoundError: if the run has no checkpoint yet.
        ValueError: one line that names the file and what is wrong in it.
    """
    kind, path = run_kind(directory, config), _path(directory)
    if kind == "task":
        numbers = _check_task(path, config)
    elif kind in TRANSLATION:
        numbers = _check_translation(path, kind, config)
    elif kind in VECTORS:
        numbers = _check_vectors(path, kind, config)
    else:
        numbers = _check_model(path, kind, config, "arguments") + _check_rest(path, kind, config)
    if not os.path.isdir(os.path.join(directory, "checkpoints")):
        raise FileNotFoundError(f"{directory} holds no checkpoint; train before you use the run")
    held = sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(directory)
        for name in names
    )
    if 4 * numbers > held:
        raise ValueError(
            f"{path} asks for a model of {numbers} numbers, but the files of the run have {held} "
            "bytes; do they belong together?"
        )


def run_kind(directory, config):
    """The kind of model of a run: one of `KINDS`, `TRANSLATION` or `VECTORS`, or "task".

    Raises:
        ValueError: if its config says something else.
    """
    return _stated(_path(directory), config, "model", (*KINDS, *TRANSLATION, *VECTORS, "task"))


def _path(directory):
    return os.path.join(os.fspath(directory), "config.json")


def best_name(path, runs):
    """The path of the best of several runs, which lies below the folder of the file `path` that
    says so.

    Raises:
        ValueError: if it says something else, or leads elsewhere.
    """
    name = runs.get("best") if isinstance(runs, dict) else None
    parts = name.split("/") if isinstance(name, str) else [""]
    if not all(parts) or {".", ".."} & set(parts) or "\\" in name or "\0" in name:
        _fail(path, "best", name, "the path of a folder beside it")
    return name


def _check_model(path, kind, config, where):
    """The numbers in a model of `kind` with the arguments that the config states in `where`."""
    from tfnlp import models
    from tfnlp.models.shapes import weight_shapes

    build = getattr(models, kind)
    arguments = _check_section(path, config, where, build, {"name", "dtype"})
    if kind != "elmo" and arguments["hidden_size"] % arguments["num_heads"]:
        _fail(path, f"{where}.num_heads", arguments["num_heads"], "a divisor of hidden_size")
    try:
        return _count(weight_shapes(build, arguments))
    except ValueError as error:
        raise ValueError(f"{path} has {where} that do not fit together: {error}") from error


def _check_translation(path, kind, config):
    """The numbers in a run's encoder-decoder, without the small ones."""
    from tfnlp import models

    others = {"name", "dtype", "source_length", "target_length"}
    arguments = _check_section(path, config, "arguments", getattr(models, kind), others)
    layers, hidden = arguments["num_layers"], arguments["hidden_size"]
    if kind == "seq2seq":
        width = arguments["embedding_size"] or hidden
        return arguments["vocab_size"] * width + layers * 16 * hidden**2
    if hidden % arguments["num_heads"]:
        _fail(path, "arguments.num_heads", arguments["num_heads"], "a divisor of hidden_size")
    block = 12 * hidden**2 + 4 * hidden * arguments["intermediate_size"]
    return arguments["vocab_size"] * hidden + layers * block


def _check_vectors(path, kind, config):
    """The numbers in the tables of a run of word vectors."""
    from tfnlp import models

    others = {"name", "dtype"}
    arguments = _check_section(path, config, "arguments", getattr(models, kind), others)
    if kind == "word2vec":
        words, buckets = arguments["vocab_size"], arguments["buckets"]
        numbers = 2 * words * arguments["hidden_size"]
        if buckets is None:
            return numbers
        for name in ("min_n", "max_n"):
            size = _find(path, config, f"text.{name}")
            if not _whole(size, 1):
                _fail(path, f"text.{name}", size, "a whole number from 1")
        most = arguments["most_subwords"]
        if most is None:
            _fail(path, "arguments.most_subwords", most, "a whole number from 1")
        return numbers + buckets * arguments["hidden_size"] + words * most
    width, hidden = arguments["embedding_size"], arguments["hidden_size"]
    read = arguments["context"] * width
    features = hidden + read * arguments["direct"]
    return arguments["vocab_size"] * (width + features + 1) + read * hidden


def _check_rest(path, kind, config):
    """The numbers in the heads of a pretraining run; also checks what else loading it looks up."""
    from tfnlp import models

    if kind == "bert":
        _check_section(path, config, "heads", models.bert_pretrainer, {"encoder", "name"})
        _stated(path, config, "text.lowercase", (True, False))
    elif kind == "gpt":
        length = _find(path, config, "training.seq_length")
        if not _whole(length, 1):
            _fail(path, "training.seq_length", length, "a whole number from 1")
    else:
        others = {"encoder", "name", "dropout", "resets"}
        heads = _check_section(path, config, "heads", models.elmo_pretrainer, others)
        reset = _find(path, config, "training.reset")
        if not isinstance(reset, str):
            _fail(path, "training.reset", reset, "a word")
        return heads["vocab_size"] * (config["arguments"].get("projection_size", 512) + 1)
    return 0


def _check_task(path, config):
    """The numbers in the model of a fine-tuning run, but for the small layers at its end."""
    from tfnlp import models
    from tfnlp.tasks.task_spec import TaskSpec

    spec = _check_section(path, config, "spec", TaskSpec, ())
    try:
        TaskSpec(**spec)
    except ValueError as error:
        raise ValueError(f"{path} has a spec that makes no sense: {error}") from error
    features = _stated(path, config, "features", (*models.FEATURES, None))
    parameters = set(inspect.signature(models.feature_task).parameters)
    head = _check_section(path, config, "head", models.feature_task, parameters - {*_HEAD})
    kind = _stated(path, config, "backbone.kind", KINDS)
    saved = _stated(path, config, "backbone.saved", (True, False))
    _stated(path, config, "backbone.lowercase", (True, False, None))
    numbers = 0
    if features is not None:  # the LSTM's, of two directions
        numbers = 8 * head["units"] ** 2 * head["lstm_layers"] + head["embedding_size"]
    return numbers if saved else numbers + _check_model(path, kind, config, "backbone.arguments")


def _check_section(path, config, where, function, left_out):
    """All arguments of `function` but some: those that the config states, and the defaults."""
    given = _find(path, config, where)
    if not isinstance(given, dict):
        _fail(path, where, given, "an object")
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in left_out:
            continue
        if name not in given and parameter.default is inspect.Parameter.empty:
            raise ValueError(f"{path} lacks {where}.{name}; restore it or start anew")
        arguments[name] = given.get(name, parameter.default)
        valid, expected = _rule(name, parameter.default)
        if name in given and not valid(given[name]):
            _fail(path, f"{where}.{name}", given[name], expected)
    for name in given:
        if name not in arguments:
            _fail(path, where, name, f"only {', '.join(arguments)} in it")
    return arguments


def _rule(name, default):
    """Whether a value can stand in place of a default, as a function, and what is expected."""
    from tfnlp.layers.activations import ACTIVATIONS
    from tfnlp.layers.attention_scores import ATTENTIONS
    from tfnlp.tasks.task_spec import TASKS

    if name in ("activation", "task"):
        names = ACTIVATIONS if name == "activation" else TASKS
        return lambda v: isinstance(v, str) and v in names, f"one of {', '.join(names)}"
    if name == "negatives":
        return lambda v: _number(v, 1e-9, 1e6), "a number above 0"
    if name == "architecture":
        names = ("skipgram", "cbow")
        return lambda v: isinstance(v, str) and v in names, f"one of {', '.join(names)}"
    if name == "attention":
        names = ", ".join(ATTENTIONS)
        return lambda v: v is None or v in list(ATTENTIONS), f"one of {names}, or null"
    if name == "filters":
        return _is_filters, f"up to {_MOST_LAYERS} pairs of whole numbers from 1"
    if name == "labels":
        return _is_texts, "a list of texts"
    if type(default) is bool:
        return lambda v: type(v) is bool, "true or false"
    if type(default) is float:
        low, high = (-1e9, 1e9) if name in _ANY_SIGN else (0, 1 if name in _RATES else 1e6)
        expected = f"a number from {low} to below {high}"
        return lambda v: _is_none(name, v) or _number(v, low, high), expected
    low, high = (0 if name in _FROM_NONE else 1), (_MOST_LAYERS if name in _LAYERS else 2**31 - 1)
    optional = default is None
    return (
        lambda v: (optional and v is None) or _is_none(name, v) or _whole(v, low, high),
        f"a whole number from {low} to {high}",
    )


def _is_none(name, value):
    return value is None and name in _MAY_BE_NONE


def _whole(value, low, high=2**31 - 1):
    return type(value) is int and low <= value <= high


def _number(value, low, high):
    return type(value) in (int, float) and low <= value < high


def _is_texts(value):
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_filters(value):
    return (
        isinstance(value, list)
        and 1 <= len(value) <= _MOST_LAYERS
        and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
        and all(_whole(number, 1) for pair in value for number in pair)
    )


def _count(shapes):
    return sum(math.prod(shape) for shape in shapes.values())


def _find(path, config, where):
    """The value at a place such as "text.lowercase"."""
    value = config
    for key in where.split("."):
        if not isinstance(value, dict) or key not in value:
            raise ValueError(f"{path} lacks {where}; restore it or start anew")
        value = value[key]
    return value


def _stated(path, config, where, choices):
    """The value at a place, which must be one of `choices`."""
    value = _find(path, config, where)
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return value
    _fail(path, where, value, f"one of {list(choices)}")


def _fail(path, where, value, expected):
    from tfnlp.convert.formats.tensors import shown

    raise ValueError(f"{path} has {where}={shown(value)}; expected {expected}")
