"""BERT's configuration: `bert_config.json` and `config.json` to the arguments of `bert`, and
back from a model."""

from tfnlp.convert.formats.json_files import read_json
from tfnlp.convert.formats.tensors import shown

SIZES = {
    "vocab_size": "vocab_size",
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "num_segments",
}
# name in the file: argument, default, lower and upper limit (the upper one excluded)
NUMBERS = {
    "hidden_dropout_prob": ("dropout", 0.1, 0.0, 1.0),
    "attention_probs_dropout_prob": ("attention_dropout", 0.1, 0.0, 1.0),
    "layer_norm_eps": ("norm_epsilon", 1e-12, 0.0, 1.0),
    "initializer_range": ("initializer_range", 0.02, 0.0, 1000.0),
}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "relu": "relu",
}
# What a model of another kind says, and the only value that BERT has.
_FIXED = {"model_type": "bert", "position_embedding_type": "absolute", "is_decoder": False}


def read_config(path, activation=None):
    """The arguments of `tfnlp.models.bert` that a configuration file states.

    Args:
        path: `bert_config.json` (Google) or `config.json` (Hugging Face).
        activation: takes the place of the file's `hidden_act`.

    Raises:
        ValueError: for a file that is not JSON, a size that is absent or not a positive whole
            number, a rate out of its range, an unknown activation, a model that is not BERT.
    """
    config = read_json(path)
    for key, only in _FIXED.items():
        if config.get(key, only) != only:
            raise ValueError(
                f"{path} has {key}={shown(config[key])}, but load_bert reads {key}={only!r} only"
            )
    arguments = {}
    for key, argument in SIZES.items():
        if key not in config:
            raise ValueError(f"{path} lacks {key}; is it the configuration of a BERT?")
        value = config[key]
        if type(value) is not int or not 1 <= value < 2**31:
            raise ValueError(
                f"{path} has {key}={shown(value)}; expected a whole number from 1 to below 2^31"
            )
        arguments[argument] = value
    if arguments["hidden_size"] % arguments["num_heads"]:
        raise ValueError(
            f"{path} has hidden_size={shown(config['hidden_size'])}, which is not a multiple of "
            f"num_attention_heads={shown(config['num_attention_heads'])}"
        )
    for key, (argument, default, low, high) in NUMBERS.items():
        value = config.get(key, default)
        if type(value) not in (int, float) or not low <= value < high:
            raise ValueError(
                f"{path} has {key}={shown(value)}; expected a number from {low} to below {high}"
            )
        arguments[argument] = float(value)
    stated = config.get("hidden_act", "gelu")
    if activation is None and (type(stated) is not str or stated not in ACTIVATIONS):
        raise ValueError(
            f"{path} has hidden_act={shown(stated)}; expected one of {sorted(ACTIVATIONS)}, or "
            "pass activation="
        )
    arguments["activation"] = activation or ACTIVATIONS[stated]
    return arguments


def config_of(model):
    """The arguments of `tfnlp.models.bert` that made `model` (an encoder or a pretrainer).

    Raises:
        ValueError: if `model` is not a BERT.
    """
    layers = {layer.name: layer for layer in model.layers}
    if not {"token_embedding", "position_embedding", "segment_embedding", "layer_0"} <= set(layers):
        raise ValueError(
            f"model {model.name!r} is not a BERT; give an encoder made by `bert` or a model made "
            "by `bert_pretrainer`"
        )
    token, block = layers["token_embedding"], layers["layer_0"]
    return {
        "vocab_size": token.vocab_size,
        "num_layers": sum(name.startswith("layer_") for name in layers),
        "hidden_size": token.hidden_size,
        "num_heads": block.num_heads,
        "intermediate_size": block.intermediate_size,
        "max_positions": layers["position_embedding"].max_positions,
        "num_segments": layers["segment_embedding"].num_segments,
        "dropout": block.dropout,
        "attention_dropout": block.attention_dropout,
        "norm_epsilon": block.norm_epsilon,
        "initializer_range": token.initializer.stddev,
        "activation": block.activation,
        "pooler": "pooler" in layers,
    }


def weight_shapes(config, masked_lm, next_sentence):
    """Dict of every weight's path to its shape, without building the model.

    A checkpoint is compared with it first, so that a configuration of absurd sizes allocates
    nothing.
    """
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    shapes = {
        "token_embedding/embeddings": (config["vocab_size"], hidden),
        "position_embedding/embeddings": (config["max_positions"], hidden),
        "segment_embedding/embeddings": (config["num_segments"], hidden),
    }

    def norm(path):
        shapes[f"{path}/gamma"] = shapes[f"{path}/beta"] = (hidden,)

    def dense(path, width, units):
        shapes[f"{path}/kernel"], shapes[f"{path}/bias"] = (width, units), (units,)

    norm("embedding_norm")
    for i in range(config["num_layers"]):
        dense(f"layer_{i}/attention/qkv", hidden, 3 * hidden)
        dense(f"layer_{i}/attention/output", hidden, hidden)
        norm(f"layer_{i}/attention_norm")
        dense(f"layer_{i}/intermediate", hidden, wide)
        dense(f"layer_{i}/output", wide, hidden)
        norm(f"layer_{i}/output_norm")
    if config["pooler"]:
        dense("pooler/dense", hidden, hidden)
    if masked_lm:
        dense("masked_lm_head/dense", hidden, hidden)
        norm("masked_lm_head/norm")
        shapes["masked_lm_bias/bias"] = (config["vocab_size"],)
    if next_sentence:
        dense("next_sentence_head/dense", hidden, 2)
    return shapes
