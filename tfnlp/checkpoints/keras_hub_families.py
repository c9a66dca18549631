"""The families that keras-hub and tfnlp share, and the names of their weights there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.encoders import (
    ALBERT_FILES,
    BERT_FILES,
    DISTILBERT_FILES,
    ROBERTA_FILES,
    SharedNames,
)
from tfnlp.checkpoints.gpt import GPT2_FILES
from tfnlp.checkpoints.mapping import UNTIED, TensorNames, Words
from tfnlp.extras import needed
from tfnlp.text import GPT2Tokenizer, RobertaTokenizer, SentencePieceTokenizer, WordPieceTokenizer

_SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_layers",
    "hidden_dim": "hidden_size",
    "num_heads": "num_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_positions",
}
_POSITIONS, _SEGMENTS = "position_embedding/embeddings", "segment_embedding/embeddings"
_ROBERTA_POSITIONS = "embeddings/position_embedding/embeddings"
_OFFSET = 2  # RoBERTa's rows before that of the first token, which keras-hub does not have
# Kernels are `[H, heads, H / heads]` and `[heads, H / heads, H]`, which are reshaped.
_BERT = TensorNames(
    layers={
        "token_embedding": "token_embedding",
        "position_embedding": "position_embedding",
        "segment_embedding": "segment_embedding",
        "embedding_norm": "embeddings_layer_norm",
        "pooler/dense": "pooled_dense",
    },
    block={
        "attention/qkv": tuple(f"self_attention_layer/{x}" for x in ("query", "key", "value")),
        "attention/output": "self_attention_layer/attention_output",
        "attention_norm": "self_attention_layer_norm",
        "intermediate": "feedforward_intermediate_dense",
        "output": "feedforward_output_dense",
        "output_norm": "feedforward_layer_norm",
    },
    prefix="transformer_layer_{}/",
    heads={
        "masked_lm": {  # its table is the input's
            "masked_lm_head/dense": "mlm_head/intermediate_dense",
            "masked_lm_head/norm": "mlm_head/intermediate_layer_norm",
            "masked_lm_bias": "mlm_head/output_bias",
        }
    },
    words=Words("/gamma", "/beta", "/kernel", "/bias", "/embeddings"),
)


class Counterpart:
    """What keras-hub has for one of tfnlp's families; reader and writer take it.

    Attributes:
        family: name of the family in tfnlp.
        title: what the names of its classes in `keras_hub.models` begin with.
        files: how Hugging Face has the family, and what makes its models.
        names: of the weights, as paths of keras-hub's variables.
        constants: arguments of the encoder that keras-hub's code has as constants.
        head_constants: the same of the layer `masked_lm_head`; none where the head has no weights.
        head: name of the output that only a pretrainer has.
        task: what the name of the class with the pretraining head ends with.
        sizes: argument of the backbone to that of the encoder.
        fixed: arguments of the backbone and the only value that tfnlp has.
        computed: paths of weights that are no copies of variables.
    """

    family: str
    title: str
    files: EncoderFiles
    names: TensorNames = _BERT
    constants: Mapping[str, Any] = {"activation": "gelu", "norm_epsilon": 1e-12}
    head_constants: Mapping[str, Any] = {"activation": "gelu", "norm_epsilon": 1e-5}
    head: str = "mlm_logits"
    task: str = "MaskedLM"
    sizes: Mapping[str, str] = _SIZES
    fixed: Mapping[str, Any] = {}
    computed: tuple[str, ...] = ()

    @property
    def backbone(self) -> str:
        """Name of the class of the encoder."""
        return f"{self.title}Backbone"

    @property
    def pretrainer(self) -> str:
        """Name of the class with the pretraining head."""
        return self.title + self.task

    def with_head(self, encoder: keras.Model) -> keras.Model:
        """Return the pretrainer of an encoder, with keras-hub's constants."""
        names = (*self.files.huggingface.heads, UNTIED)
        numbers = {**self.files.config_of(encoder), **self.head_constants}
        return self.files.with_heads(encoder, numbers, {n: n == "masked_lm" for n in names}, None)

    def arguments(self, model: keras.Model) -> dict[str, Any]:
        """Return what made the encoder of a model; raise ValueError for another family's."""
        return self.files.config_of(model)

    def made(self, variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the weights `computed` of keras-hub's variables, by path."""
        return {}

    def more(self, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return keras-hub's variables that are no copies of weights, by path."""
        return {}

    def read_tokenizer(self, tokenizer: Any) -> Any:
        """Return tfnlp's tokenizer for keras-hub's."""
        return WordPieceTokenizer(list(tokenizer.get_vocabulary()), lowercase=tokenizer.lowercase)

    def write_tokenizer(self, tokenizer: Any, make: Any) -> Any:
        """Return keras-hub's tokenizer, of the class `make`, for tfnlp's."""
        lowercase = tokenizer.lowercase
        return make(tokenizer.vocabulary, lowercase=lowercase, strip_accents=lowercase)

    def lowercase(self, tokenizer: Any) -> bool | None:
        """Return whether keras-hub's tokenizer lower-cases text."""
        return tokenizer.lowercase


class _BytePairs(Counterpart):
    """A family with GPT-2's byte pairs."""

    tokenizer: type

    def read_tokenizer(self, tokenizer: Any) -> Any:
        tokens: list[str | None] = [None] * (max(tokenizer.vocabulary.values()) + 1)
        for token, number in tokenizer.vocabulary.items():
            tokens[number] = token
        lines = (line for line in tokenizer.merges if not line.startswith("#version:"))
        return self.tokenizer((tokens, [tuple(line.split(" ")) for line in lines]))

    def write_tokenizer(self, tokenizer: Any, make: Any) -> Any:
        ids = {token: i for i, token in enumerate(tokenizer.vocabulary) if token is not None}
        return make(ids, [" ".join(pair) for pair in tokenizer.merges])

    def lowercase(self, tokenizer: Any) -> None:
        return None


class _Bert(Counterpart):
    family, title, files = "bert", "Bert", BERT_FILES
    constants = {"activation": "gelu_tanh", "norm_epsilon": 1e-12}
    sizes = {**_SIZES, "num_segments": "num_segments"}


class _DistilBert(Counterpart):
    family, title, files = "distilbert", "DistilBert", DISTILBERT_FILES
    names = dataclasses.replace(
        _BERT,
        layers={
            **_BERT.layers,
            "token_embedding": "token_and_position_embedding/token_embedding",
            "position_embedding": "token_and_position_embedding/position_embedding",
        },
    )


class _Albert(Counterpart):
    family, title, files = "albert", "Albert", ALBERT_FILES
    names = SharedNames(
        layers={**_BERT.layers, "embedding_projection": "embedding_projection"},
        block=_BERT.block,
        prefix="group_{}_inner_layer_{}/",
        heads=_BERT.heads,
        words=_BERT.words,
    )
    constants = {"activation": "gelu_tanh", "norm_epsilon": 1e-12}
    head_constants = {"activation": "gelu_tanh", "norm_epsilon": 1e-5}
    sizes = {**_SIZES, "num_segments": "num_segments", "embedding_dim": "embedding_size"}
    fixed = {"num_groups": 1, "num_inner_repetitions": 1}

    def read_tokenizer(self, tokenizer: Any) -> Any:
        return SentencePieceTokenizer(tokenizer.proto, lowercase=self.lowercase(tokenizer))

    def write_tokenizer(self, tokenizer: Any, make: Any) -> Any:
        return make(tokenizer.model)

    def lowercase(self, tokenizer: Any) -> bool:
        """Return whether no piece but special ones has a capital letter."""
        pieces = (p for p in tokenizer.get_vocabulary() if not p.startswith(("[", "<")))
        return all(piece == piece.lower() for piece in pieces)


class _Roberta(_BytePairs):
    family, title, files, tokenizer = "roberta", "Roberta", ROBERTA_FILES, RobertaTokenizer
    names = dataclasses.replace(
        _BERT,
        layers={
            "token_embedding": "embeddings/token_embedding",
            "embedding_norm": "embeddings_layer_norm",
        },
    )
    constants = {"activation": "gelu", "norm_epsilon": 1e-5}
    computed = (_POSITIONS, _SEGMENTS)

    def arguments(self, model: keras.Model) -> dict[str, Any]:
        arguments = super().arguments(model)
        if arguments["padding_id"] != _OFFSET - 1 or arguments["num_segments"] != 1:
            raise ValueError(f"model {model.name!r} is not a RoBERTa")
        return arguments

    def made(self, variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the table of positions with the rows that are not read, and a segment of zeros."""
        table = np.asarray(variables[_ROBERTA_POSITIONS].numpy())  # [P, H]
        return {
            _POSITIONS: np.pad(table, ((_OFFSET, 0), (0, 0))),
            _SEGMENTS: np.zeros_like(table[:1]),
        }

    def more(self, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the positions: without the first rows, the vector of the segment added."""
        positions, segments = (np.asarray(weights[x].numpy()) for x in (_POSITIONS, _SEGMENTS))
        return {_ROBERTA_POSITIONS: positions[_OFFSET:] + segments}


class _GPT2(_BytePairs):
    family, title, files, tokenizer = "gpt", "GPT2", GPT2_FILES, GPT2Tokenizer
    names = dataclasses.replace(
        _BERT,
        layers={
            "token_embedding": "token_embedding",
            "position_embedding": "position_embedding",
            "final_norm": "layer_norm",
        },
        block={
            **_BERT.block,
            "attention/qkv": tuple(f"self_attention/{x}" for x in ("query", "key", "value")),
            "attention/output": "self_attention/attention_output",
        },
        heads={},
    )
    constants = {"norm_first": True, "activation": "gelu_tanh", "norm_epsilon": 1e-5}
    head_constants = {}
    head, task = "lm_logits", "CausalLM"

    def arguments(self, model: keras.Model) -> dict[str, Any]:
        arguments = super().arguments(model)
        if not arguments["norm_first"]:
            raise ValueError(f"model {model.name!r} is not a GPT-2")
        return arguments


# RoBERTa before BERT, whose layers have the same names.
COUNTERPARTS: dict[str, Counterpart] = {
    part.backbone: part for part in (_Roberta(), _Bert(), _DistilBert(), _Albert(), _GPT2())
}


def library() -> ModuleType:
    """Return the module `keras_hub`."""
    return needed("keras_hub", "keras-hub", "keras-hub", "a model of keras-hub")


def counterpart(backbone: str, what: str) -> Counterpart:
    """Return the description of a class of keras-hub, such as "BertBackbone".

    `what`, the object or folder that has it, is for the message.
    """
    if backbone not in COUNTERPARTS:
        raise ValueError(f"{what} is a {backbone[:80]}; tfnlp reads {', '.join(COUNTERPARTS)}")
    return COUNTERPARTS[backbone]
