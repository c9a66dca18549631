"""What `config.json` states of an encoder, and what a model says of itself."""

from __future__ import annotations

import inspect
import pathlib
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras

from tfnlp.checkpoints.formats.json_files import read_json
from tfnlp.layers import TransformerBlock
from tfnlp.text.lines import shown

# Fields that are no arguments of a model. These change no number of a prediction, those in `ONLY`
# none with the values there; any other value is refused. A field that nobody knows is named.
HARMLESS = frozenset(
    # What wrote the file, and where it was.
    "_name_or_path name_or_path transformers_version architectures model_type auto_map "
    "finetuning_task task_specific_params language adapters tokenizer_class model_max_length "
    "tfnlp_task gradient_checkpointing vocab_file sentence_transformers "
    # Of the whole that a model may be a part of.
    "is_encoder_decoder "
    # How transformers computes the same numbers, in which precision, and which of them it returns.
    "_attn_implementation attn_implementation dtype torch_dtype use_bfloat16 torchscript "
    "return_dict output_attentions output_hidden_states output_past use_cache cache_implementation "
    "chunk_size_feed_forward reorder_and_upcast_attn tie_last_hidden_states "
    # Rates of dropout, and how weights begin.
    "classifier_dropout classifier_dropout_prob hidden_dropout qa_dropout seq_classif_dropout "
    "embd_pdrop summary_first_dropout summary_last_dropout sinusoidal_pos_embds tie_weights_ "
    # Names and tokens, which the head's and the tokenizer's files have; padding is masked.
    "id2label label2id num_labels _num_labels problem_type pad_token_id bos_token_id eos_token_id "
    "sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id prefix "
    # Old names of what the file states twice, or what no class has read.
    "n_ctx n_special predict_special_tokens directionality pooler_fc_size pooler_num_fc_layers "
    "pooler_num_attention_heads pooler_size_per_head pooler_type output_size num_memory_blocks "
    "net_structure_type gap_size down_scale_factor "
    # Of heads for which their classes are asked, see `TaskHead.fixed`.
    "summary_type summary_use_proj summary_activation summary_proj_to_labels "
    # How texts are generated.
    "max_length min_length do_sample early_stopping num_beams temperature top_k top_p typical_p "
    "repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "bad_words_ids num_return_sequences output_scores return_dict_in_generate num_beam_groups "
    "forced_bos_token_id forced_eos_token_id remove_invalid_values diversity_penalty "
    "exponential_decay_length_penalty suppress_tokens begin_suppress_tokens".split()
)
ONLY: Mapping[str, tuple[Any, ...]] = {
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "cross_attention_hidden_size": (None,),
    "position_embedding_type": ("absolute", None),
    "is_causal": (None,),
    "pruned_heads": ({}, None),
    "per_layer_config": ({}, None),
    "layer_types": (None,),
    "sliding_window": (None,),
    "quantization_config": (None,),
}
# Of several words for one activation the first is written.
ACTIVATIONS = {
    "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "gelu_python_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh", "gelu_tanh": "gelu_tanh", "quick_gelu": "quick_gelu",
    "gelu_10": "clipped_gelu", "relu": "relu", "relu6": "relu6", "relu2": "squared_relu",
    "leaky_relu": "leaky_relu", "silu": "silu", "swish": "silu", "mish": "mish",
    "hardswish": "hard_silu", "tanh": "tanh", "sigmoid": "sigmoid", "laplace": "laplace",
    "sqrtsoftplus": "sqrt_softplus", "linear": "linear",
}  # fmt: skip
BERT_SIZES = {
    "vocab_size": "vocab_size",
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "num_segments",
}
# name in the file: argument, default, lower and upper limit (the upper one excluded)
BERT_NUMBERS = {
    "hidden_dropout_prob": ("dropout", 0.1, 0.0, 1.0),
    "attention_probs_dropout_prob": ("attention_dropout", 0.1, 0.0, 1.0),
    "layer_norm_eps": ("norm_epsilon", 1e-12, 0.0, 1.0),
    "initializer_range": ("initializer_range", 0.02, 0.0, 1000.0),
}
_LEAST = {"position_buckets": 32}  # of sizes; which are read whatever their number
_SHARED = re.compile(r"shared_layer_\d+_\d+")  # blocks of an ALBERT with several


@dataclass(frozen=True)
class ConfigNames:
    """How `config.json` states the arguments of an encoder.

    Attributes:
        model_type: what it calls the kind of model.
        sizes: name in the file to the argument that is this whole number; needed but for those of
            `optional`.
        numbers: name in the file to (argument, default, lower limit, upper limit, excluded).
        activation: name in the file of the activation.
        default_activation: the file's word for it where it states none.
        activations: the file's words to the argument's; of several words for one activation the
            first is written.
        optional: names in the file and what they are where it does not state them.
        written: more that is written.
        counts_from_padding: whether positions are counted from `pad_token_id` + 1, RoBERTa's.
        fixed: names in the file and what they are whatever it states.
        elsewhere: arguments that the tensors tell, or that others read.
    """

    model_type: str
    sizes: Mapping[str, str] = field(default_factory=lambda: BERT_SIZES)
    numbers: Mapping[str, tuple[str, float, float, float]] = field(
        default_factory=lambda: BERT_NUMBERS
    )
    activation: str = "hidden_act"
    default_activation: str = "gelu"
    activations: Mapping[str, str] = field(default_factory=lambda: ACTIVATIONS)
    optional: Mapping[str, Any] = field(default_factory=dict)
    written: Mapping[str, Any] = field(default_factory=dict)
    counts_from_padding: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ("pooler", "seq_length")

    @property
    def arguments(self) -> list[str]:
        """The arguments that the file states."""
        numbers = (each[0] for each in self.numbers.values())
        padding = ["padding_id"] * self.counts_from_padding
        return [*self.sizes.values(), *numbers, *padding, "activation"]

    def size_key(self, argument: str) -> str:
        """Return the name in the file of an argument that is a size."""
        return next(key for key, ours in self.sizes.items() if ours == argument)

    def read(self, path: pathlib.Path, title: str, activation: str | None = None) -> dict[str, Any]:
        """Return the arguments of the encoder that a file states; without one, the usual ones.

        `title` is that of the family; `activation` replaces the file's.
        """
        config = read_json(path) if path.is_file() else {}
        if config.get("model_type", self.model_type) != self.model_type:
            raise ValueError(
                f"{path} has model_type={shown(config['model_type'])}; expected that of a {title}, "
                f"{self.model_type!r}"
            )
        known = [*self.sizes, *self.numbers, self.activation, *self.optional, "tie_word_embeddings"]
        check_fields(path, config, known)
        stated = {**self.optional, **config, **self.fixed}
        arguments: dict[str, Any] = {
            argument: read_size(path, stated, key, title, _LEAST.get(argument, 1))
            for key, argument in self.sizes.items()
        }
        if arguments.get("num_groups", 1) > arguments["num_layers"]:
            raise ValueError(
                f"{path} has more groups of layers ({self.size_key('num_groups')}="
                f"{arguments['num_groups']}) than layers ({arguments['num_layers']})"
            )
        if self.counts_from_padding:
            padding, positions = stated["pad_token_id"], arguments["max_positions"]
            if type(padding) is not int or not 0 <= padding < positions - 1:
                raise ValueError(
                    f"{path} has pad_token_id={shown(padding)}; expected a number below "
                    f"{self.size_key('max_positions')}={positions} - 1"
                )
            arguments |= {"padding_id": padding, "max_positions": positions - padding - 1}
        if arguments["hidden_size"] % arguments["num_heads"]:
            keys = map(self.size_key, ("hidden_size", "num_heads"))
            wide, heads = (f"{key}={stated[key]}" for key in keys)
            raise ValueError(f"{path} has {wide}, which is not a multiple of {heads}")
        for key, (argument, default, low, high) in self.numbers.items():
            value = config.get(key, default)
            if type(value) not in (int, float) or not low <= value < high:
                raise ValueError(
                    f"{path} has {key}={shown(value)}; expected a number from {low} to below {high}"
                )
            arguments[argument] = float(value)
        if activation is None:
            word = config.get(self.activation, self.default_activation)
            if type(word) is not str or word not in self.activations:
                raise ValueError(
                    f"{path} has {self.activation}={shown(word)}; expected one of "
                    f"{sorted(self.activations)}"
                )
            activation = self.activations[word]
        return {**arguments, "activation": activation}

    def write(self, config: Mapping[str, Any], architecture: str) -> dict[str, Any]:
        """Return the contents of `config.json` for the arguments of an encoder."""
        sizes = {theirs: config[ours] for theirs, ours in self.sizes.items()}
        if self.counts_from_padding:
            sizes["pad_token_id"] = config["padding_id"]
            sizes[self.size_key("max_positions")] += config["padding_id"] + 1
        words = [word for word, ours in self.activations.items() if ours == config["activation"]]
        if not words:
            raise ValueError(
                f"activation={config['activation']!r} has no name in Hugging Face's "
                f"{self.model_type!r}; expected one of {sorted(set(self.activations.values()))}"
            )
        return {
            "architectures": [architecture],
            "model_type": self.model_type,
            **sizes,
            **{theirs: config[ours] for theirs, (ours, *_) in self.numbers.items()},
            self.activation: words[0],
            **self.written,
        }

    def check_unstated(self, encoder: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        """Refuse arguments that the file has no word for, as DistilBERT's epsilon."""
        stated = {*self.arguments, *self.elsewhere}
        for name, default in defaults_of(encoder).items():
            value = arguments.get(name, default)
            if name not in stated and value != default:
                raise ValueError(
                    f"Hugging Face's {self.model_type!r} has {name}={default}; this model has "
                    f"{value}"
                )


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the arguments of a function with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters}


def read_size(
    path: pathlib.Path, config: Mapping[str, Any], key: str, title: str, least: int = 1
) -> int:
    """Return `config[key]`, a whole number from `least` to below 2^31."""
    if key not in config:
        raise ValueError(f"{path} lacks {key}; is it the configuration of a {title}?")
    value = config[key]
    if type(value) is not int or not least <= value < 2**31:
        raise ValueError(
            f"{path} has {key}={shown(value)}; expected a whole number from {least} to below 2^31"
        )
    return value


def layer_arguments(model: keras.Model, prefix: str = "") -> dict[str, Any] | None:
    """Return the arguments that its layers say an encoder has, or a model on one.

    None for a model that is no Transformer. With a `prefix` the blocks are those whose names have
    it, as those of the generator of an ELECTRA.
    """
    layers = {layer.name: layer for layer in model.layers}
    names = [name for name in layers if name.startswith((f"{prefix}layer_", "shared_layer"))]
    blocks = [layers[name] for name in names if isinstance(layers[name], TransformerBlock)]
    if not blocks or not {"token_embedding", "position_embedding"} <= set(layers):
        return None
    block, token, position = blocks[0], layers["token_embedding"], layers["position_embedding"]
    segments, distances = (layers.get(f"{kind}_embedding") for kind in ("segment", "distance"))
    shared = list(filter(_SHARED.fullmatch, layers))
    groups = len({name.split("_")[2] for name in shared}) or 1
    group_blocks = len(shared) // groups or 1
    passed = len(model.output.get("encoder_outputs", blocks)) if not prefix else len(blocks)
    return {
        "vocab_size": token.vocab_size,
        "num_layers": passed // group_blocks,
        "num_groups": groups,
        "group_blocks": group_blocks,
        "hidden_size": block.output_norm.gamma.shape[0],
        "embedding_size": token.hidden_size,
        "num_heads": block.num_heads,
        "intermediate_size": block.intermediate_size,
        "max_positions": position.max_positions,
        "padding_id": position.offset - 1,
        "num_segments": segments and segments.num_segments,
        "position_buckets": distances and distances.num_buckets,
        "norm_first": block.norm_first,
        "dropout": block.dropout,
        "attention_dropout": block.attention_dropout,
        "norm_epsilon": block.norm_epsilon,
        "initializer_range": token.initializer.stddev,
        "activation": block.activation,
    }


def check_fields(path: pathlib.Path, config: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse fields whose values are not executed; name those that nobody knows on stderr.

    `known` are those that the family reads.
    """
    check_values(path, config, {key: ONLY[key] for key in ONLY if key not in known})
    unknown = sorted(set(config) - {*known, *HARMLESS, *ONLY})
    if unknown:
        names = ", ".join(shown(key) for key in unknown[:10])
        print(f"{path} has fields that tfnlp does not know, and ignores: {names}", file=sys.stderr)


def check_values(
    path: pathlib.Path, config: Mapping[str, Any], only: Mapping[str, tuple[Any, ...]]
) -> None:
    """Raise ValueError if a field has a value that is not among those of `only`."""
    for key, values in only.items():
        if key in config and config[key] not in values:
            raise ValueError(
                f"{path} has {key}={shown(config[key])}, which tfnlp does not execute; it reads "
                f"{' or '.join(repr(value) for value in values)}"
            )
