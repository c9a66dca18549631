"""The description of a family's checkpoints, which the reader and the writer of encoders take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras

from tfnlp.checkpoints.encoder_tasks import encoder_task_files
from tfnlp.checkpoints.encoders import load_encoder, save_encoder
from tfnlp.checkpoints.family_files import FamilyFiles
from tfnlp.checkpoints.heads import TaskFiles, TaskHead
from tfnlp.checkpoints.mapping import UNTIED, Row
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.tokenizers.files import TokenizerFiles
from tfnlp.checkpoints.tokenizers.wordpiece import WORDPIECE

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
_BUFFERS = re.compile(r"embeddings\.(position_ids|token_type_ids)")


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
        constants: arguments that the file can't state, and the only value that they have.
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
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The arguments that the file states."""
        numbers = (each[0] for each in self.numbers.values())
        padding = ["padding_id"] * self.counts_from_padding
        return [*self.sizes.values(), *numbers, *padding, "activation"]

    def size_key(self, argument: str) -> str:
        """Return the name in the file of an argument that is a size."""
        return next(key for key, ours in self.sizes.items() if ours == argument)


@dataclass(frozen=True)
class TensorNames:
    """How one format names the tensors of an encoder and its heads.

    Attributes:
        rows: function of (the encoder's arguments, the heads that are there) to the table of
            weight path to `Row`. The argument `pooler` says whether there is one.
        heads: the name of each pretraining head, which is the argument of the pretrainer that asks
            for it, to the beginnings of its tensors' names.
        layer: matches the names of a layer's tensors; its group is the index. None if all layers
            share their weights.
        beginning: what a name in the table begins with (of several, one of them), if the file is
            of this format.
        base: the beginning that `rows` leaves out, and that only models with a head have.
        pooler: what the names of the pooler begin with; None if the encoder never has one.
        copies: tensors that some versions store twice, others once, under either name: the name of
            the copy to that of the tensor.
        buffers: matches the names of tensors that are no weights.
        renamed: endings of names in old files to those in the table.
        hint: what `beginning` is, for messages.
    """

    rows: Callable[[Mapping[str, Any], frozenset[str]], dict[str, Row]]
    heads: Mapping[str, tuple[str, ...]]
    layer: re.Pattern[str] | None
    hint: str
    beginning: str | tuple[str, ...] = "embeddings."
    base: str = ""
    pooler: str | None = None
    copies: Mapping[str, str] = field(default_factory=dict)
    buffers: re.Pattern[str] = _BUFFERS
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def biases(self) -> list[str]:
        """The copies that are biases, which are none where the table beside them is not tied."""
        return [name for name in self.copies if name.endswith(".bias")]

    def canonical(self, name: str) -> str | None:
        """Return the name in the table for one in the file; None for a buffer."""
        name = name.removeprefix(self.base)
        for old, new in self.renamed.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        return None if self.buffers.fullmatch(name) else name


def heads_like_the_encoder(
    make: Callable[..., keras.Model],
    encoder: keras.Model,
    config: Mapping[str, Any],
    heads: Mapping[str, bool],
    max_predictions: int | None,
) -> keras.Model:
    """Return an encoder with heads that have the numbers of `config`.

    With `make`, the function of `tfnlp.models` that makes the pretrainer, bound it is an
    `EncoderFiles.pretrainer`.
    """
    shared = ("activation", "norm_epsilon", "initializer_range")
    own = {name: there for name, there in heads.items() if name != UNTIED}
    return make(
        encoder,
        **{name: config[name] for name in shared if name in config},
        # A head that is the only one is always there, and no argument.
        **(own if len(own) > 1 else {}),
        max_predictions=max_predictions,
        tied=not heads[UNTIED],
    )


@dataclass(frozen=True)
class EncoderFiles(FamilyFiles):
    """The checkpoints of a family of encoders.

    Attributes:
        title: the family in messages, without article: "BERT".
        loader: the function that reads them, for messages.
        encoder: function of `tfnlp.models` that makes the encoder.
        pretrainer: function of (encoder, the encoder's arguments, dict of head to whether it is
            there, static number of predictions or None) to the model with its pretraining heads;
            see `heads_like_the_encoder`.
        config: names in `config.json`.
        formats: names of tensors in each format; the last one is Hugging Face's, which is written.
        classes: the heads that are there, in the order of `TensorNames.heads`, to the name of
            Hugging Face's class.
        needs_pooler: heads that need the pooler.
        head_activation: that of the masked-LM head; None: that of the encoder.
        configurations: names of the configuration, the first that exists is read.
        tokenizer: how the vocabulary is read and written.
        tasks: kind of output of a task to the head of its fine-tuned checkpoints.
    """

    title: str
    loader: str
    encoder: Callable[..., keras.Model]
    pretrainer: Callable[..., keras.Model]
    config: ConfigNames
    formats: tuple[TensorNames, ...]
    classes: Mapping[tuple[str, ...], str]
    needs_pooler: tuple[str, ...] = ()
    head_activation: str | None = None
    configurations: tuple[str, ...] = ("config.json",)
    tokenizer: TokenizerFiles = WORDPIECE
    tasks: Mapping[str, TaskHead] = field(default_factory=dict)

    @property
    def huggingface(self) -> TensorNames:
        """The names that are written."""
        return self.formats[-1]

    def of_heads(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of an encoder with the activation of its masked-LM head."""
        return {**config, "activation": self.head_activation or config["activation"]}

    @property
    def model_types(self) -> tuple[str, ...]:
        return (self.config.model_type,)

    @property
    def task_files(self) -> TaskFiles:
        return encoder_task_files(self)

    def canonical(self, name: str) -> str | None:
        """See `FamilyFiles`."""
        return self.huggingface.canonical(name)

    @property
    def outside(self) -> tuple[str, ...]:
        form = self.huggingface
        tasks = [name for head in self.tasks.values() for name in head.beginnings(form.pooler)]
        return (*tasks, *(name for names in form.heads.values() for name in names))

    def load(self, path: str, dtype: str | None = None) -> Pretrained:
        """See `FamilyFiles`."""
        return load_encoder(self, path, dtype=dtype)

    def save(
        self, model: keras.Model, directory: str, tokenizer: Any = None, overwrite: bool = False
    ) -> None:
        """See `FamilyFiles`."""
        save_encoder(self, model, directory, tokenizer, overwrite)

    def write_tokenizer(self, folder: str, reader: Any, arguments: Mapping[str, Any]) -> None:
        """See `FamilyFiles`."""
        self.tokenizer.write(folder, reader.tokenizer, arguments.get("max_positions", 512))
