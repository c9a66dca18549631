"""GPT's and GPT-2's configurations: Hugging Face's `config.json` and OpenAI's `hparams.json` to
the arguments of `gpt`, and back from a model."""

from tfnlp.convert.bert import config as bert_config
from tfnlp.convert.formats.json_files import read_json
from tfnlp.convert.formats.tensors import shown

SIZES = {
    "vocab_size": "vocab_size",
    "n_positions": "max_positions",
    "n_embd": "hidden_size",
    "n_layer": "num_layers",
    "n_head": "num_heads",
}
OPENAI_SIZES = {
    "n_vocab": "vocab_size",
    "n_ctx": "max_positions",
    "n_embd": "hidden_size",
    "n_layer": "num_layers",
    "n_head": "num_heads",
}
# name in the file: argument, default, lower and upper limit (the upper one excluded)
NUMBERS = {
    "resid_pdrop": ("dropout", 0.1, 0.0, 1.0),
    "attn_pdrop": ("attention_dropout", 0.1, 0.0, 1.0),
    "layer_norm_epsilon": ("norm_epsilon", 1e-5, 0.0, 1.0),
    "initializer_range": ("initializer_range", 0.02, 0.0, 1000.0),
}
MODEL_TYPES = {False: "openai-gpt", True: "gpt2"}  # by norm_first
# Both of OpenAI's codes, and with them `openai-gpt` of transformers, call the tanh form "gelu".
OPENAI_ACTIVATIONS = {
    "gelu": "gelu_tanh",
    "gelu (tanh)": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
}
ACTIVATIONS = {False: OPENAI_ACTIVATIONS, True: bert_config.ACTIVATIONS}
_HEADS = 12  # of the published GPT
# What neither code of OpenAI leaves open.
OPENAI = {argument: default for argument, default, *_ in NUMBERS.values()}
OPENAI["activation"] = "gelu_tanh"
# What another model would say, and the only value that GPT has.
_FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def read_config(path, norm_first):
    """The arguments of `tfnlp.models.gpt` that a `config.json` of Hugging Face states.

    The rate on the embeddings, `embd_pdrop`, is passed over: `gpt` has one `dropout` for them and
    for the sub-layers, and `resid_pdrop` gives it.

    Args:
        path: a `pathlib.Path`.
        norm_first: whether the tensors are a GPT-2's (True) or a GPT's.

    Raises:
        ValueError: for a file that is not JSON, a size that is absent or not a positive whole
            number, a rate out of its range, an unknown activation, a model of another kind.
    """
    config = read_json(path)
    kind = MODEL_TYPES[norm_first]
    if config.get("model_type", kind) != kind:
        raise ValueError(
            f"{path} has model_type={shown(config['model_type'])}, but the tensors have the names "
            f"of {kind!r}; do the files belong together?"
        )
    for key, only in _FIXED.items():
        if config.get(key, only) != only:
            raise ValueError(
                f"{path} has {key}={shown(config[key])}, but load_gpt reads {key}={only!r} only"
            )
    arguments = {argument: _size(path, config, key) for key, argument in SIZES.items()}
    hidden = arguments["hidden_size"]
    arguments["intermediate_size"] = 4 * hidden
    if norm_first and config.get("n_inner") is not None:
        arguments["intermediate_size"] = _size(path, config, "n_inner")
    arguments["norm_first"] = norm_first
    for key, (argument, default, low, high) in NUMBERS.items():
        arguments[argument] = _number(path, config, key, default, low, high)
    key = "activation_function" if norm_first else "afn"
    default = "gelu_new" if norm_first else "gelu"
    arguments["activation"] = _activation(path, config, key, default, ACTIVATIONS[norm_first])
    _check_heads(path, arguments)
    return arguments


def read_hparams(path):
    """The arguments of `tfnlp.models.gpt` that the `hparams.json` of a GPT-2 states.

    Raises:
        ValueError: for a file that is not JSON, a size that is absent or not a positive whole
            number.
    """
    config = read_json(path)
    arguments = {argument: _size(path, config, key) for key, argument in OPENAI_SIZES.items()}
    arguments["intermediate_size"] = 4 * arguments["hidden_size"]
    _check_heads(path, arguments)
    return {**arguments, **OPENAI, "norm_first": True}


def complete(path, config, sizes):
    """The arguments of a GPT whose tensors tell every size but the number of heads.

    Args:
        path: of `hparams.json`, which may be absent from the checkpoint.
        config: what it holds, `{}` if it is absent.
        sizes: dict of argument to the size that the tensors have.

    Raises:
        ValueError: if the file has another size than the tensors, or a value makes no sense.
    """
    for key, argument in OPENAI_SIZES.items():
        if argument in sizes and config.get(key, sizes[argument]) != sizes[argument]:
            raise ValueError(
                f"{path} has {key}={shown(config[key])}, but the tensors have {sizes[argument]}; "
                "do the files belong together?"
            )
    arguments = {**sizes, **OPENAI, "norm_first": False}
    if "n_head" not in config and sizes["hidden_size"] % _HEADS:
        raise ValueError(
            f"{path} states no n_head, and the {_HEADS} heads of the published GPT don't divide "
            f"n_embd={sizes['hidden_size']}; state it there"
        )
    arguments["num_heads"] = _size(path, {"n_head": _HEADS, **config}, "n_head")
    arguments["activation"] = _activation(path, config, "afn", "gelu", OPENAI_ACTIVATIONS)
    arguments["norm_epsilon"] = _number(path, config, "ln_eps", OPENAI["norm_epsilon"], 0.0, 1.0)
    _check_heads(path, arguments)
    return arguments


def _number(path, config, key, default, low, high):
    """`config[key]` as a float from `low` to below `high`."""
    value = config.get(key, default)
    if type(value) not in (int, float) or not low <= value < high:
        raise ValueError(
            f"{path} has {key}={shown(value)}; expected a number from {low} to below {high}"
        )
    return float(value)


def _activation(path, config, key, default, names):
    """tfnlp's name of the activation that the file calls `config[key]`."""
    stated = config.get(key, default)
    if type(stated) is not str or stated not in names:
        raise ValueError(f"{path} has {key}={shown(stated)}; expected one of {sorted(names)}")
    return names[stated]


def _size(path, config, key):
    if key not in config:
        raise ValueError(f"{path} lacks {key}; is it the configuration of a GPT?")
    value = config[key]
    if type(value) is not int or not 1 <= value < 2**31:
        raise ValueError(
            f"{path} has {key}={shown(value)}; expected a whole number from 1 to below 2^31"
        )
    return value


def _check_heads(path, arguments):
    hidden, heads = arguments["hidden_size"], arguments["num_heads"]
    if hidden % heads:
        raise ValueError(f"{path} has n_head={heads}, which does not divide n_embd={hidden}")


def config_of(model):
    """The arguments of `tfnlp.models.gpt` that made `model` (an encoder or a pretrainer).

    Raises:
        ValueError: if `model` is not a GPT, or holds weights besides.
    """
    layers = {layer.name: layer for layer in model.layers}
    config = None
    if {"token_embedding", "position_embedding", "layer_0"} <= set(layers):
        token, block = layers["token_embedding"], layers["layer_0"]
        config = {
            "vocab_size": token.vocab_size,
            "num_layers": sum(name.startswith("layer_") for name in layers),
            "hidden_size": token.hidden_size,
            "num_heads": block.num_heads,
            "intermediate_size": block.intermediate_size,
            "max_positions": layers["position_embedding"].max_positions,
            "norm_first": block.norm_first,
            "dropout": block.dropout,
            "attention_dropout": block.attention_dropout,
            "activation": block.activation,
            "norm_epsilon": block.norm_epsilon,
            "initializer_range": token.initializer.stddev,
        }
    if config is None or {w.path for w in model.weights} != set(weight_shapes(config)):
        raise ValueError(
            f"model {model.name!r} is not a GPT; give an encoder made by `gpt` or a model made "
            "by `gpt_pretrainer`"
        )
    return config


def weight_shapes(config):
    """Dict of every weight's path to its shape, without building the model.

    A checkpoint is compared with it first, so that a configuration of absurd sizes allocates
    nothing.
    """
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    shapes = {
        "token_embedding/embeddings": (config["vocab_size"], hidden),
        "position_embedding/embeddings": (config["max_positions"], hidden),
    }

    def norm(path):
        shapes[f"{path}/gamma"] = shapes[f"{path}/beta"] = (hidden,)

    def dense(path, width, units):
        shapes[f"{path}/kernel"], shapes[f"{path}/bias"] = (width, units), (units,)

    for i in range(config["num_layers"]):
        dense(f"layer_{i}/attention/qkv", hidden, 3 * hidden)
        dense(f"layer_{i}/attention/output", hidden, hidden)
        norm(f"layer_{i}/attention_norm")
        dense(f"layer_{i}/intermediate", hidden, wide)
        dense(f"layer_{i}/output", wide, hidden)
        norm(f"layer_{i}/output_norm")
    if config["norm_first"]:
        norm("final_norm")
    return shapes
