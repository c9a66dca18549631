"""Settings of fine-tuning: a class a task."""

import dataclasses
from typing import Any

from tfnlp.settings.bert import BertSettings
from tfnlp.settings.options import option, redefine
from tfnlp.settings.sizes import CHANGED_SIZES
from tfnlp.settings.training import (
    DeviceSettings,
    OutputSettings,
    PrecisionSettings,
    RematSettings,
    TokenBatchSettings,
)
from tfnlp.settings.use import MODEL_HELP, ColumnSettings

OBJECTIVES = ("ranking", "cosine", "softmax", "simcse")


MATRICES = ("query", "key", "value", "attention_output", "intermediate", "output")


FEATURES = (
    "embeddings",
    "second-to-last",
    "last",
    "sum-last-four",
    "concat-last-four",
    "sum-all",
)  # rows of table 7 of the BERT paper; a test compares them with those of tfnlp.models


WORDS_ALONE = "words"


@dataclasses.dataclass(kw_only=True)
@redefine(
    output={"group": "run"},
    workers={"hidden": True},
    index={"hidden": True},
    label_columns={"hidden": True},
    separator={"hidden": True},
    strategy={"choices": ("auto", "cpu", "gpu", "mirrored", "tpu")},
)
class FinetuneSettings(
    PrecisionSettings,
    DeviceSettings,
    RematSettings,
    ColumnSettings,
    TokenBatchSettings,
    OutputSettings,
):
    """Fine-tune a pretrained model on a task, or train a network on its frozen features."""

    model: Any = option(
        help=MODEL_HELP,
        metavar="DIR", group="run",
    )  # fmt: skip
    train: Any = option(
        help="examples to learn from, or tfds:NAME[/CONFIG][:SPLIT]",
        metavar="FILE", group="examples",
    )  # fmt: skip
    dev: Any = option(
        None, "examples to measure on (default: a share of those to learn from)",
        metavar="FILE", group="examples",
    )  # fmt: skip
    held_out: float = option(
        0.1, "without dev examples: share of the others that is held out",
        above=0, below=1, group="examples",
    )  # fmt: skip
    folds: int | None = option(
        None, "without dev examples: divide the others into K parts and make a run for each, "
        "which is held out; prints mean and deviation", at_least=2, metavar="K", group="examples",
    )  # fmt: skip
    limit: int | None = option(
        None, "train on the first N examples", at_least=1, metavar="N", group="examples"
    )
    features: str | None = option(
        None,
        "train a biLSTM on frozen layers in place of the whole model; all: each choice in turn, "
        "as a table (an ELMo is always frozen; default there: sum-all); words: of an ELMo none of "
        "its layers, only the task's own words, to compare with",
        choices=(*FEATURES, WORDS_ALONE, "all"), group="model",
    )  # fmt: skip
    units: int = option(200, "features: width of the biLSTM", at_least=1, group="model")
    lstm_layers: int = option(1, "features: biLSTMs", at_least=1, group="model")
    word_embeddings: int = option(
        100, "ELMo: size of embeddings that the task learns for its own words; 0: none",
        at_least=0, group="model",
    )  # fmt: skip
    cache: str | None = option(
        None, "features: keep them here, for the next runs too", metavar="DIR", group="model"
    )
    max_length: int = option(128, "longest sequence, in pieces", group="model")
    pack: bool = option(
        False,
        "classify, labels, similarity, tag: train on rows of MAX_LENGTH pieces with several "
        "examples that do not see each other; an update has as many rows as hold about BATCH_SIZE "
        "examples",
        group="optimisation",
    )  # fmt: skip
    epochs: float | None = option(
        None, "times through the data (default: 3; features 6)", above=0, group="optimisation"
    )
    batch_size: int = option(32, "examples an update", at_least=1, group="optimisation")
    accumulation: int | None = option(
        None,
        "micro-batches an update, each of similar lengths (default: on a CPU up to 4, of 8 "
        "examples or more; otherwise 1)",
        at_least=1, group="optimisation",
    )  # fmt: skip
    learning_rate: float | None = option(
        None,
        "peak (default: BERT 3e-5, GPT 6.25e-5, of smaller models more: times "
        "12 x 768 / (layers x width), up to 3e-4 and 5e-4; with `lora` or `train_weights` ten "
        "times that, up to 2e-3; features 2e-3)",
        above=0, group="optimisation",
    )  # fmt: skip
    warmup: float | None = option(
        None, "share of the steps (default: GPT 0.002, others 0.1)",
        at_least=0, at_most=1, group="optimisation",
    )  # fmt: skip
    weight_decay: float | None = option(
        None, "strength (default: 0.01; features 0)", at_least=0, group="optimisation"
    )
    clip_norm: float = option(1.0, "0 for no clipping", at_least=0, group="optimisation")
    dropout: float | None = option(
        None, "rate (default: 0.1; features 0.5)", at_least=0, below=1, group="optimisation"
    )
    optimizer: str = option(
        "adamw",
        "adamw: the textbook's, as torch's; bert_adamw: without bias correction, as in BERT's "
        "reference code",
        choices=("adamw", "bert_adamw"), group="optimisation",
    )  # fmt: skip
    lm_weight: float = option(
        0.5, "GPT: of the language model beside the task", at_least=0, group="optimisation"
    )
    class_weights: Any = option(
        None,
        "classify, tag: how often a class counts in the loss; balanced: examples / (classes x "
        "examples of the class). labels: how often an example that has the label does; balanced: "
        "examples without it / examples with it. Those that are not named: 1",
        metavar="balanced|LABEL=WEIGHT,...", group="optimisation",
    )  # fmt: skip
    label_smoothing: float = option(
        0.0, "classify, labels, choose, tag: share of the label that all classes get alike",
        at_least=0, below=1, group="optimisation",
    )  # fmt: skip
    layer_decay: float = option(
        1.0, "factor of the learning rate from each layer to the one below",
        above=0, at_most=1, group="optimisation",
    )  # fmt: skip
    freeze: int = option(
        0, "keep the embeddings and N-1 layers", at_least=0, metavar="N", group="optimisation"
    )
    lora: int | None = option(
        None,
        "train low-rank updates of the matrices (LoRA) and the head alone: their rank",
        at_least=1, metavar="RANK", group="parts of the model",
    )  # fmt: skip
    lora_matrices: list[str] = option(
        ["query", "value"], "which matrices of each layer get updates",
        choices=MATRICES, group="parts of the model",
    )  # fmt: skip
    lora_alpha: float | None = option(
        None, "updates are multiplied by ALPHA / RANK (default: 2 RANK)",
        above=0, metavar="ALPHA", group="parts of the model",
    )  # fmt: skip
    lora_dropout: float = option(
        0.0, "rate on the inputs of the updates", at_least=0, below=1, group="parts of the model"
    )
    train_weights: str | None = option(
        None,
        "train the weights in whose path this regular expression is found, and the head; BitFit: "
        "'/(bias|beta)$'",
        metavar="REGEX", group="parts of the model",
    )  # fmt: skip
    seeds: list[int] = option(
        [1], "one run each; several give a mean", at_least=0, group="optimisation"
    )
    search: int | None = option(
        None, "make N runs with other learning rates, batch sizes and epochs, but for those that "
        "are given, and keep the best (needs optuna)", at_least=1, metavar="N",
        group="optimisation",
    )  # fmt: skip
    jit: bool = option(False, "compile the step with XLA", group="devices")
    no_buckets: bool = option(False, "pad all batches to the longest example", group="devices")
    metric: str | None = option(
        None, "dev measure that picks the checkpoint (default: the task's)", group="checkpoints"
    )
    patience: int | None = option(
        None, "evaluations without progress before stopping", at_least=1, group="checkpoints"
    )
    evaluations: int = option(1, "on the dev set in every epoch", at_least=1, group="checkpoints")

    teacher: Any = option(
        None, "fine-tuned model to learn from, too: a run of this task with the same labels, or a "
        "checkpoint of transformers",
        metavar="DIR", group="teacher",
    )  # fmt: skip
    distillation_weight: float = option(
        0.5, "of the loss against the teacher; that against the labels has the rest of 1",
        above=0, at_most=1, group="teacher",
    )  # fmt: skip
    temperature: float = option(
        2.0, "that smooths the probabilities of both", above=0, group="teacher"
    )
    unlabelled: Any = option(
        None, "more examples, of which the teacher alone says what they are",
        metavar="FILE", group="teacher",
    )  # fmt: skip

    def check(self) -> None:
        """Check the fields, and that the seeds differ."""
        super().check()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"`seeds` {self.seeds} must be distinct and 0 or more")
        self._check_several()
        if self.batch_tokens is not None and self.no_buckets:
            raise ValueError("`batch_tokens` can't be given with `no_buckets`, rows of one length")

    def _check_several(self) -> None:
        """Check that only one thing differs between several runs."""
        if self.folds:
            for name in ("dev", "held_out", "teacher"):
                if name in self.given:
                    raise ValueError(f"`folds` can't be given with `{name}`; leave one of them out")
        for name in ("folds", "search"):
            others = {
                "several `seeds`": len(self.seeds) > 1,
                "`features` all": self.features == "all",
                "`folds`": name == "search" and self.folds,
            }
            for other, given in others.items():
                if getattr(self, name) and given:
                    raise ValueError(f"`{name}` can't be given with {other}; leave one of them out")


@dataclasses.dataclass(kw_only=True)
@redefine(
    label_columns={"hidden": False},
    separator={"hidden": False},
    label={"help": "name or number of a column of lists, or of names with a separator"},
)
class LabelsSettings(FinetuneSettings):
    """Any number of labels for a text or a pair of texts."""


@dataclasses.dataclass(kw_only=True)
class TagSettings(FinetuneSettings):
    """A tag for each word: parts of speech, entities."""

    crf: bool = option(
        False,
        "learn and predict whole sequences of tags with a CRF (Lample et al. 2016), in place of "
        "each tag on its own",
        group="model",
    )  # fmt: skip
    stride: int = option(64, "pieces from one window of a longer text to the next", group="model")


@dataclasses.dataclass(kw_only=True)
class RolesSettings(TagSettings):
    """The role of each word for a predicate (semantic role labelling)."""

    predicate_size: int = option(
        100, "features: size of the embedding that marks the predicate", at_least=1, group="model"
    )


@dataclasses.dataclass(kw_only=True)
@redefine(
    max_length=384,
    **{
        name: {"hidden": True}
        for name in ("text_columns", "label", "class_weights", "label_smoothing")
    },
)
class AnswerSettings(FinetuneSettings):
    """The part of a document that answers a question (SQuAD)."""

    stride: int = option(128, "pieces from one window of a longer text to the next", group="model")
    max_question: int = option(64, "pieces of a question", group="model")
    max_answer: int = option(30, "pieces of an answer", group="model")


_HIDDEN = (
    "features", "units", "lstm_layers", "word_embeddings", "cache", "pack", "lm_weight",
    "batch_tokens", "class_weights", "label_smoothing", "teacher", "distillation_weight",
    "unlabelled", "folds",
)  # fmt: skip


@dataclasses.dataclass(kw_only=True)
@redefine(
    **{name: {"hidden": True} for name in _HIDDEN},
    batch_size={"default": 64, "help": "examples an update, all compared with each other"},
    accumulation={
        "help": "parts that an update is computed in, each of similar lengths; ranking compares "
        "the examples of all of them (default: on a CPU up to 4, otherwise 1)"
    },
    epochs={"help": "times through the data (default: of rated pairs 4, others 1)"},
    text_columns={
        "help": "names of the columns of the texts, or numbers from 0 of files without header: a "
        "text and one that belongs to it, then any that do not"
    },
    label={"help": "name or number of the column of a rating or a class, if there is one"},
)
class SentenceFinetuneSettings(FinetuneSettings):
    """Vectors of sentences: near for texts that belong together."""

    objective: str | None = option(
        None,
        "ranking: the second text among all of the batch; cosine: rated pairs; softmax: pairs with "
        "a class, as in Sentence-BERT; simcse: each text with itself under dropout (default: by "
        "the examples)",
        choices=OBJECTIVES, group="model",
    )  # fmt: skip
    pooling: str | None = option(
        None, "of the vectors of tokens (default: the model's, else mean)",
        choices=("mean", "cls", "max", "last"), group="model",
    )  # fmt: skip
    temperature: float = option(
        0.05, "ranking: cosines are divided by it", above=0, group="optimisation"
    )
    one_way: bool = option(
        False, "ranking: do not rank the first text among all first ones too", group="optimisation"
    )
    sizes: list[int] = option(
        [], "Matryoshka: vectors that are cut to so many numbers are trained too",
        at_least=1, group="model",
    )  # fmt: skip


@dataclasses.dataclass(kw_only=True)
@redefine(
    text={
        "default": dataclasses.MISSING, "flag": "--train",
        "help": "text to learn from, given like --input of `tfnlp pretrain`",
    },
    valid={"flag": "--dev"},
    start={
        "default": dataclasses.MISSING, "flag": "--model", "help": "a BERT with its masked-LM head",
    },
    held_out={"help": "without --dev: share of --train held out"},
    seq_length={
        "default": None,
        "help": "tokens a training sequence (default: 128, or the model's positions if fewer)",
    },
    epochs=10, learning_rate={
        "default": None, "help": "peak learning rate (default: 1e-4; of models smaller than "
        "12 layers x 768 in proportion more, up to 3e-4)",
    },
    warmup=0.06,
    **{name: {"hidden": True} for name in (
        "vocab", "vocab_size", "cased", "examples", "size", "max_positions", "initializer_range",
        *CHANGED_SIZES,
    )},
)  # fmt: skip
class FillSettings(BertSettings):
    """Go on with the masked LM of a BERT on other text.

    The numbers are those of Gururangan et al. 2020 ("Don't stop pretraining", appendix): AdamW,
    1e-4 at its peak, a warm-up of 6 %, decay 0.01.
    """


FILL = "fill"  # goes on with a masked language model: its run is a pretraining run


EMBED = "embed"  # its run is an encoder, as that of pretraining
