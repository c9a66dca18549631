"""The families that keras-hub and tfnlp share, and the names of their weights there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tfnlp.checkpoints.albert import ALBERT_FILES
from tfnlp.checkpoints.bert import BERT_FILES
from tfnlp.checkpoints.distilbert import DISTILBERT_FILES
from tfnlp.checkpoints.encoder_config import config_of
from tfnlp.checkpoints.gpt_config import config_of as gpt_config_of
from tfnlp.checkpoints.mapping import NameTable, Row
from tfnlp.checkpoints.roberta import ROBERTA_FILES
from tfnlp.extras import needed
from tfnlp.models import (
    albert,
    albert_pretrainer,
    bert,
    bert_pretrainer,
    distilbert,
    gpt,
    gpt_pretrainer,
    roberta,
    roberta_pretrainer,
)
from tfnlp.text import GPT2Tokenizer, RobertaTokenizer, SentencePieceTokenizer, WordPieceTokenizer

SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_layers",
    "hidden_dim": "hidden_size",
    "num_heads": "num_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_positions",
}

# Of the masked-LM heads, whatever the encoder has.
_HEAD = dict(activation="gelu", norm_epsilon=1e-5)
_ALBERT_HEAD = dict(activation="gelu_tanh", norm_epsilon=1e-5)
_POSITIONS, _SEGMENTS = "position_embedding/embeddings", "segment_embedding/embeddings"
_ROBERTA_POSITIONS = "embeddings/position_embedding/embeddings"
_OFFSET = 2  # RoBERTa's rows before that of the first token, which keras-hub does not have


@dataclass(frozen=True)
class Counterpart:
    """What keras-hub has for one of tfnlp's families; reader and writer take it.

    Attributes:
        family: name of the family in tfnlp.
        title: what the names of its classes in `keras_hub.models` begin with.
        encoder: function of `tfnlp.models` that makes the encoder.
        with_head: function of an encoder to its pretrainer, with keras-hub's constants.
        constants: arguments of the encoder that keras-hub's code has as constants.
        rows: function of (the encoder's arguments, whether there is a pretraining head) to the
            table of weight path to `Row` of the paths of keras-hub's variables.
        arguments: function of an encoder or a pretrainer to the arguments that made the encoder;
            raises ValueError for another family's.
        read_tokenizer: function of keras-hub's tokenizer to tfnlp's.
        write_tokenizer: function of (tfnlp's tokenizer, keras-hub's class) to keras-hub's.
        lowercase: function of keras-hub's tokenizer to whether text is lower-cased.
        head_constants: the same as `constants`, of the layer `masked_lm_head`; none where the head
            has no weights of its own.
        head: name of the output that only a pretrainer has.
        task: what the name of the class with the pretraining head ends with.
        sizes: argument of the backbone to that of the encoder.
        fixed: arguments of the backbone and the only value that tfnlp has.
        made: paths of weights that are no copies of variables.
        read: function of (keras-hub's variables by path) to the weights `made` by path.
        write: function of (weights by path) to more variables by path.
    """

    family: str
    title: str
    encoder: Callable[..., keras.Model]
    with_head: Callable[[keras.Model], keras.Model]
    constants: Mapping[str, Any]
    rows: Callable[..., dict[str, Row]]
    arguments: Callable[[keras.Model], dict[str, Any]]
    read_tokenizer: Callable[[Any], Any]
    write_tokenizer: Callable[[Any, Any], Any]
    lowercase: Callable[[Any], bool | None] = lambda tokenizer: None
    head_constants: Mapping[str, Any] = field(default_factory=dict)
    head: str = "mlm_logits"
    task: str = "MaskedLM"
    sizes: Mapping[str, str] = field(default_factory=lambda: SIZES)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    read: Callable[[Mapping[str, Any]], dict[str, np.ndarray]] = lambda variables: {}
    write: Callable[[Mapping[str, Any]], dict[str, np.ndarray]] = lambda weights: {}

    @property
    def backbone(self) -> str:
        """Name of the class of the encoder."""
        return f"{self.title}Backbone"

    @property
    def pretrainer(self) -> str:
        """Name of the class with the pretraining head."""
        return self.title + self.task


def library() -> ModuleType:
    """Return the module `keras_hub`."""
    return needed("keras_hub", "keras-hub", "keras-hub", "a model of keras-hub")


def _embeddings(kinds: Sequence[str], prefix: str = "") -> NameTable:
    """Return a table in the words of keras-hub, with the embeddings of some kinds."""
    table = NameTable("/gamma", "/beta", "/kernel", "/bias")
    for kind in kinds:
        path = f"{kind}_embedding/embeddings"
        table.tensor(path, prefix + path)
    return table


def _block(table: NameTable, path: str, name: str, attention: str = "self_attention_layer") -> None:
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


def _encoder_rows(
    arguments: Mapping[str, Any],
    head: bool,
    kinds: Sequence[str] = ("token", "position", "segment"),
    prefix: str = "",
    pooler: bool = False,
) -> dict[str, Row]:
    table = _embeddings(kinds, prefix)
    table.norm("embedding_norm", "embeddings_layer_norm")
    for i in range(arguments["num_layers"]):
        _block(table, f"layer_{i}", f"transformer_layer_{i}")
    if pooler:
        table.dense("pooler/dense", "pooled_dense")
    if head:  # its table is the input's
        table.masked_lm(
            "mlm_head/intermediate_dense",
            "mlm_head/intermediate_layer_norm",
            "mlm_head/output_bias",
        )
    return table.rows


def _bert_rows(arguments: Mapping[str, Any], head: bool) -> dict[str, Row]:
    return _encoder_rows(arguments, head, pooler=arguments["pooler"])


def _albert_rows(arguments: Mapping[str, Any], head: bool) -> dict[str, Row]:
    table = NameTable("/gamma", "/beta", "/kernel", "/bias")
    table.rows.update(_bert_rows({**arguments, "num_layers": 0}, head))
    table.dense("embedding_projection", "embedding_projection")
    _block(table, "shared_layer", "group_0_inner_layer_0")
    return table.rows


def _gpt2_rows(arguments: Mapping[str, Any], head: bool) -> dict[str, Row]:
    table = _embeddings(("token", "position"))
    for i in range(arguments["num_layers"]):
        _block(table, f"layer_{i}", f"transformer_layer_{i}", "self_attention")
    table.norm("final_norm", "layer_norm")
    return table.rows


def _roberta_arguments(model: keras.Model) -> dict[str, Any]:
    arguments = config_of(ROBERTA_FILES, model)
    offset = model.get_layer("position_embedding").offset
    if offset != _OFFSET or arguments["num_segments"] != 1:
        raise ValueError(f"model {model.name!r} is not a RoBERTa")
    return arguments


def _read_positions(variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the table of positions with the rows that are not read, and a segment of zeros."""
    table = np.asarray(variables[_ROBERTA_POSITIONS].numpy())  # [P, H]
    return {
        _POSITIONS: np.pad(table, ((_OFFSET, 0), (0, 0))),
        _SEGMENTS: np.zeros_like(table[:1]),
    }


def _write_positions(weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return keras-hub's positions: without the first rows, the vector of the segment added."""
    positions, segments = (np.asarray(weights[x].numpy()) for x in (_POSITIONS, _SEGMENTS))
    return {_ROBERTA_POSITIONS: positions[_OFFSET:] + segments}


def _read_wordpiece(tokenizer: Any) -> Any:
    return WordPieceTokenizer(list(tokenizer.get_vocabulary()), lowercase=tokenizer.lowercase)


def _write_wordpiece(tokenizer: Any, make: Any) -> Any:
    lowercase = tokenizer.lowercase
    return make(tokenizer.vocabulary, lowercase=lowercase, strip_accents=lowercase)


def _read_sentencepiece(tokenizer: Any) -> Any:
    return SentencePieceTokenizer(tokenizer.proto, lowercase=_pieces_are_lowercase(tokenizer))


def _pieces_are_lowercase(tokenizer: Any) -> bool:
    """Return whether no piece but special ones has a capital letter."""
    pieces = (p for p in tokenizer.get_vocabulary() if not p.startswith(("[", "<")))
    return all(piece == piece.lower() for piece in pieces)


def _read_byte_pairs(kind: type, tokenizer: Any) -> Any:
    tokens: list[str | None] = [None] * (max(tokenizer.vocabulary.values()) + 1)
    for token, number in tokenizer.vocabulary.items():
        tokens[number] = token
    lines = (line for line in tokenizer.merges if not line.startswith("#version:"))
    return kind((tokens, [tuple(line.split(" ")) for line in lines]))


def _write_byte_pairs(tokenizer: Any, make: Any) -> Any:
    ids = {token: i for i, token in enumerate(tokenizer.vocabulary) if token is not None}
    return make(ids, [" ".join(pair) for pair in tokenizer.merges])


BERT = Counterpart(
    family="bert",
    title="Bert",
    encoder=bert,
    with_head=functools.partial(bert_pretrainer, next_sentence=False, **_HEAD),
    constants={"activation": "gelu_tanh", "norm_epsilon": 1e-12},
    rows=_bert_rows,
    arguments=functools.partial(config_of, BERT_FILES),
    read_tokenizer=_read_wordpiece,
    write_tokenizer=_write_wordpiece,
    lowercase=lambda tokenizer: tokenizer.lowercase,
    head_constants=_HEAD,
    sizes={**SIZES, "num_segments": "num_segments"},
)
DISTILBERT = Counterpart(
    family="distilbert",
    title="DistilBert",
    encoder=distilbert,
    with_head=functools.partial(
        bert_pretrainer, next_sentence=False, name="distilbert_pretrainer", **_HEAD
    ),
    constants={"activation": "gelu", "norm_epsilon": 1e-12},
    rows=functools.partial(
        _encoder_rows, kinds=("token", "position"), prefix="token_and_position_embedding/"
    ),
    arguments=functools.partial(config_of, DISTILBERT_FILES),
    read_tokenizer=_read_wordpiece,
    write_tokenizer=_write_wordpiece,
    lowercase=lambda tokenizer: tokenizer.lowercase,
    head_constants=_HEAD,
)
ALBERT = Counterpart(
    family="albert",
    title="Albert",
    encoder=albert,
    with_head=functools.partial(albert_pretrainer, sentence_order=False, **_ALBERT_HEAD),
    constants={"activation": "gelu_tanh", "norm_epsilon": 1e-12},
    rows=_albert_rows,
    arguments=functools.partial(config_of, ALBERT_FILES),
    read_tokenizer=_read_sentencepiece,
    write_tokenizer=lambda tokenizer, make: make(tokenizer.model),
    lowercase=_pieces_are_lowercase,
    head_constants=_ALBERT_HEAD,
    sizes={**SIZES, "num_segments": "num_segments", "embedding_dim": "embedding_size"},
    fixed={"num_groups": 1, "num_inner_repetitions": 1},
)
ROBERTA = Counterpart(
    family="roberta",
    title="Roberta",
    encoder=roberta,
    with_head=functools.partial(roberta_pretrainer, **_HEAD),
    constants={"activation": "gelu", "norm_epsilon": 1e-5},
    rows=functools.partial(_encoder_rows, kinds=("token",), prefix="embeddings/"),
    arguments=_roberta_arguments,
    read_tokenizer=functools.partial(_read_byte_pairs, RobertaTokenizer),
    write_tokenizer=_write_byte_pairs,
    head_constants=_HEAD,
    made=(_POSITIONS, _SEGMENTS),
    read=_read_positions,
    write=_write_positions,
)
GPT2 = Counterpart(
    family="gpt",
    title="GPT2",
    encoder=gpt,
    with_head=gpt_pretrainer,
    constants={"norm_first": True, "activation": "gelu_tanh", "norm_epsilon": 1e-5},
    rows=_gpt2_rows,
    arguments=gpt_config_of,
    read_tokenizer=functools.partial(_read_byte_pairs, GPT2Tokenizer),
    write_tokenizer=_write_byte_pairs,
    head="lm_logits",
    task="CausalLM",
)
# RoBERTa before BERT, whose layers have the same names.
COUNTERPARTS = {part.backbone: part for part in (ROBERTA, BERT, DISTILBERT, ALBERT, GPT2)}


def counterpart(backbone: str, what: str) -> Counterpart:
    """Return the description of a class of keras-hub, such as "BertBackbone".

    `what`, the object or folder that has it, is for the message.
    """
    if backbone not in COUNTERPARTS:
        raise ValueError(f"{what} is a {backbone[:80]}; tfnlp reads {', '.join(COUNTERPARTS)}")
    return COUNTERPARTS[backbone]
