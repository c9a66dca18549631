"""The description of a family in keras-hub, which reader and writer take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tfnlp.convert.mapping import Row
from tfnlp.convert.name_table import NameTable

SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_layers",
    "hidden_dim": "hidden_size",
    "num_heads": "num_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_positions",
}


@dataclass(frozen=True)
class Counterpart:
    """What keras-hub has for one of tfnlp's families.

    Attributes:
        family: name of the family in tfnlp.
        backbone, pretrainer, preprocessor, tokenizer: names of the classes in `keras_hub.models`;
            the preprocessor is that of the pretrainer.
        constants: arguments of the encoder that keras-hub's code has as constants.
        build: function of (arguments, whether there is a pretraining head, dtype) to encoder and
            pretrainer (or None).
        rows: function of (arguments, whether there is a pretraining head) to the table of weight
            path to `Row` of the paths of keras-hub's variables.
        arguments: function of an encoder or a pretrainer to the arguments that made the encoder;
            raises ValueError for another family's.
        read_tokenizer: function of keras-hub's tokenizer to tfnlp's.
        write_tokenizer: function of (tfnlp's tokenizer, keras-hub's class) to keras-hub's.
        head: name of the output that only a pretrainer has.
        head_constants: function of a pretrainer to what differs in its head from the constants of
            keras-hub's: name to (value, keras-hub's).
        sizes: argument of the backbone to that of the encoder.
        lowercase: function of keras-hub's tokenizer to whether text is lower-cased.
        fixed: arguments of the backbone and the only value that tfnlp has.
        made: paths of weights that are no copies of variables.
        read: function of (keras-hub's variables by path) to the weights `made` by path.
        write: function of (weights by path) to more variables by path.
    """

    family: str
    backbone: str
    pretrainer: str
    preprocessor: str
    tokenizer: str
    constants: Mapping[str, Any]
    build: Callable[..., tuple[keras.Model, keras.Model | None]]
    rows: Callable[..., dict[str, Row]]
    arguments: Callable[[keras.Model], dict[str, Any]]
    read_tokenizer: Callable[[Any], Any]
    write_tokenizer: Callable[[Any, Any], Any]
    head: str = "mlm_logits"
    head_constants: Callable[[keras.Model], dict[str, tuple]] = lambda model: {}
    sizes: Mapping[str, str] = field(default_factory=lambda: SIZES)
    lowercase: Callable[[Any], bool | None] = lambda tokenizer: None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    read: Callable[[Mapping[str, Any]], dict[str, np.ndarray]] = lambda variables: {}
    write: Callable[[Mapping[str, Any]], dict[str, np.ndarray]] = lambda weights: {}


def masked_lm_models(
    make_encoder: Callable[..., keras.Model],
    make_pretrainer: Callable[..., keras.Model],
    **constants: Any,
) -> Callable[..., tuple[keras.Model, keras.Model | None]]:
    """Return the `build` of a family with a masked-LM head, whose constants are given."""

    def build(
        arguments: dict[str, Any], head: bool, dtype: Any
    ) -> tuple[keras.Model, keras.Model | None]:
        encoder = make_encoder(**arguments, dtype=dtype)
        return encoder, make_pretrainer(encoder, **constants) if head else None

    return build


def library() -> ModuleType:
    """Return the module `keras_hub`.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError(
            f"keras-hub can't be imported ({error}); `pip install keras-hub`"
        ) from error
    return keras_hub


def names() -> NameTable:
    """Return an empty table in the words of keras-hub: paths of variables."""
    return NameTable("/gamma", "/beta", "/kernel", "/bias")


def block(table: NameTable, path: str, name: str, attention: str = "self_attention_layer") -> None:
    """Add the rows of a Transformer block.

    keras-hub has kernels `[H, heads, H / heads]` and `[heads, H / heads, H]`, which are reshaped.
    """
    parts = (f"{name}/{attention}/{part}" for part in ("query", "key", "value"))
    table.dense(f"{path}/attention/qkv", *parts)
    table.dense(f"{path}/attention/output", f"{name}/{attention}/attention_output")
    table.norm(f"{path}/attention_norm", f"{name}/self_attention_layer_norm")
    table.dense(f"{path}/intermediate", f"{name}/feedforward_intermediate_dense")
    table.dense(f"{path}/output", f"{name}/feedforward_output_dense")
    table.norm(f"{path}/output_norm", f"{name}/feedforward_layer_norm")


def masked_lm(table: NameTable) -> None:
    """Add the rows of a masked-LM head whose table is the input's."""
    table.dense("masked_lm_head/dense", "mlm_head/intermediate_dense")
    table.norm("masked_lm_head/norm", "mlm_head/intermediate_layer_norm")
    table.tensor("masked_lm_bias/bias", "mlm_head/output_bias")


def masked_lm_constants(
    model: keras.Model, activation: str = "gelu", norm_epsilon: float = 1e-5
) -> dict[str, tuple]:
    """Return what differs in the masked-LM head of `model` from keras-hub's constants."""
    head = model.get_layer("masked_lm_head")
    found = {
        "the head's activation": (head.activation, activation),
        "the head's norm_epsilon": (head.norm_epsilon, norm_epsilon),
    }
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}
