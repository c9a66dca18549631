"""Settings of fine-tuning that tasks share; those of one task stand in a file of its name."""

from typing import Any, ClassVar

from tfnlp.settings.options import FIRST, Settings, option
from tfnlp.settings.training import (
    DeviceSettings,
    OutputSettings,
    PrecisionSettings,
    RematSettings,
    TokenBatchSettings,
)
from tfnlp.settings.use import MODEL_HELP, RowSettings

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


class FinetuneSettings(
    PrecisionSettings, DeviceSettings, RematSettings, RowSettings, OutputSettings,
    output={"group": "run"}, strategy={"choices": ("auto", "cpu", "gpu", "mirrored", "tpu")},
):  # fmt: skip
    """Fine-tune a pretrained model on a task."""

    # One process trains.
    workers: ClassVar[str | None] = None
    index: ClassVar[int | None] = None
    # Of tasks that have no such setting.
    folds: ClassVar[int | None] = None
    features: ClassVar[str | None] = None
    cache: ClassVar[str | None] = None
    pack: ClassVar[bool] = False
    batch_tokens: ClassVar[int | None] = None
    lm_weight: ClassVar[float] = 0.0
    class_weights: ClassVar[Any] = None
    label_smoothing: ClassVar[float] = 0.0
    teacher: ClassVar[Any] = None
    unlabelled: ClassVar[Any] = None
    crf: ClassVar[bool] = False

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
        metavar="FILE", group=FIRST,
    )  # fmt: skip
    epochs: float | None = option(
        None,
        "times through the data (default: 3, features 6; of few examples as many as make 300 "
        "updates, at most 20)",
        above=0, group=FIRST,
    )  # fmt: skip
    batch_size: int = option(32, "examples an update", at_least=1, group=FIRST)
    learning_rate: float | None = option(
        None,
        "peak (default: BERT 3e-5, GPT 6.25e-5, of smaller models more: times "
        "12 x 768 / (layers x width), up to 3e-4 and 5e-4; with `lora` or `train_weights` ten "
        "times that, up to 2e-3; features 2e-3)",
        above=0, group=FIRST,
    )  # fmt: skip
    max_length: int = option(128, "longest sequence, in pieces", group=FIRST)
    held_out: float = option(
        0.1, "without dev examples: share of the others that is held out",
        above=0, below=1, group="examples",
    )  # fmt: skip
    limit: int | None = option(
        None, "train on the first N examples", at_least=1, metavar="N", group="examples"
    )
    dev_limit: int | None = option(
        None, "measure on the first N examples of `dev` (default: all, with `limit` as many)",
        at_least=1, metavar="N", group="examples",
    )  # fmt: skip
    marks: list[str] = option(
        [],
        "tokens that are read where a text has them written, such as [SEP]; new ones take the "
        "places of [unused1] and on (default: all is text, but for marks of the model)",
        metavar="TOKEN", group="examples",
    )  # fmt: skip
    accumulation: int | None = option(
        None,
        "micro-batches an update, each of similar lengths (default: on a CPU up to 4, of 8 "
        "examples or more; otherwise 1)",
        at_least=1, group="optimisation",
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

    def check(self) -> None:
        """Check the fields, that the seeds differ, and that only one thing does between runs."""
        super().check()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"`seeds` {self.seeds} must be distinct and 0 or more")
        for name in ("folds", "search"):
            others = {
                "several `seeds`": len(self.seeds) > 1,
                "`features` all": self.features == "all",
                "`folds`": name == "search" and self.folds,
            }
            for other, given in others.items():
                if getattr(self, name) and given:
                    raise ValueError(f"`{name}` can't be given with {other}; leave one of them out")


class HeadSettings(TokenBatchSettings, FinetuneSettings):
    """Fine-tune a pretrained model on a task, or train a network on its frozen features."""

    folds: int | None = option(
        None, "without dev examples: divide the others into K parts and make a run for each, "
        "which is held out; prints mean and deviation", at_least=2, metavar="K", group="examples",
    )  # fmt: skip
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
    lm_weight: float = option(
        0.5, "GPT: of the language model beside the task", at_least=0, group="optimisation"
    )

    def check(self) -> None:
        """Check the fields, and that they fit together."""
        super().check()
        if self.folds:
            why = "can't be given with `folds`; leave one of them out"
            self.refuse(("dev", "held_out", "teacher"), why)
        if self.batch_tokens is not None and self.no_buckets:
            raise ValueError("`batch_tokens` can't be given with `no_buckets`, rows of one length")


class ClassWeightSettings(Settings):
    """How often a class counts in the loss."""

    class_weights: Any = option(
        None,
        "how often a class counts in the loss; balanced: examples / (classes x examples of the "
        "class). Those that are not named: 1",
        metavar="balanced|LABEL=WEIGHT,...", group="optimisation",
    )  # fmt: skip


class SmoothingSettings(Settings):
    """Smoothing of labels."""

    label_smoothing: float = option(
        0.0, "share of the label that all classes get alike",
        at_least=0, below=1, group="optimisation",
    )  # fmt: skip


class PackSettings(Settings):
    """Whether rows hold several examples."""

    pack: bool = option(
        False,
        "train on rows of MAX_LENGTH pieces with several examples that do not see each other; an "
        "update has as many rows as hold about BATCH_SIZE examples",
        group="optimisation",
    )  # fmt: skip


class TeacherSettings(Settings):
    """A larger model to learn from."""

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
