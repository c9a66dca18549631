"""Settings of the tasks, a class each; what they share stands in `finetune`."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.encoders import BertSettings
from tfnlp.settings.finetune import (
    ClassWeightSettings,
    FinetuneSettings,
    HeadSettings,
    PackSettings,
    SmoothingSettings,
    TeacherSettings,
)
from tfnlp.settings.options import option
from tfnlp.settings.use import (
    POOLINGS,
    ColumnSettings,
    LabelSetSettings,
    SeveralColumnsSettings,
)


class ClassifySettings(
    ClassWeightSettings, SmoothingSettings, PackSettings, TeacherSettings, ColumnSettings,
    HeadSettings,
):  # fmt: skip
    """A class for a text or a pair of texts."""

    task: ClassVar[str] = "classify"


class LabelsSettings(
    ClassWeightSettings, SmoothingSettings, PackSettings, LabelSetSettings, HeadSettings,
    label={"help": "name or number of a column of lists, or of names with a separator"},
    class_weights={
        "help": "how often an example that has the label counts in the loss; balanced: examples "
        "without it / examples with it. Those that are not named: 1"
    },
):  # fmt: skip
    """Any number of labels for a text or a pair of texts."""

    task: ClassVar[str] = "labels"


class SimilaritySettings(PackSettings, TeacherSettings, ColumnSettings, HeadSettings):
    """A number for a pair of texts."""

    task: ClassVar[str] = "similarity"


class ScoresSettings(
    PackSettings, SeveralColumnsSettings, HeadSettings,
    label={"help": "name or number of a column with numbers by name"},
    label_columns={"help": "the columns of numbers, one a score"},
):  # fmt: skip
    """Several numbers for a text or a pair of texts."""

    task: ClassVar[str] = "scores"


class ChooseSettings(SmoothingSettings, TeacherSettings, ColumnSettings, HeadSettings):
    """Which of several texts goes on from a text."""

    task: ClassVar[str] = "choose"


class AnswerSettings(TeacherSettings, HeadSettings, max_length=384):
    """The part of a document that answers a question (SQuAD)."""

    task: ClassVar[str] = "answer"

    stride: int = option(128, "pieces from one window of a longer text to the next", group="model")
    max_question: int = option(64, "pieces of a question", group="model")
    max_answer: int = option(30, "pieces of an answer", group="model")


class WordSettings(ClassWeightSettings, SmoothingSettings, ColumnSettings, HeadSettings):
    """Of tasks with a tag for each word."""

    crf: bool = option(
        False, "learn and predict whole sequences of tags with a CRF (Lample et al. 2016), in "
        "place of each tag on its own", group="model",
    )  # fmt: skip
    stride: int = option(64, "pieces from one window of a longer text to the next", group="model")


class TagSettings(PackSettings, TeacherSettings, WordSettings):
    """A tag for each word: parts of speech, entities."""

    task: ClassVar[str] = "tag"


class RolesSettings(WordSettings):
    """The role of each word for a predicate (semantic role labelling)."""

    task: ClassVar[str] = "roles"

    predicate_size: int = option(
        100, "features: size of the embedding that marks the predicate", at_least=1, group="model"
    )


class CorefSettings(HeadSettings, max_length=384, batch_size=1):
    """Clusters of the mentions of a document that name the same (coreference)."""

    task: ClassVar[str] = "coref"
    lm_weight: ClassVar[float] = 0.0  # a GPT learns the task alone

    width: int | None = option(
        None, "words of the longest mention (default: what 99 % of the training examples' fit in, "
        "at most 30)", at_least=1, group="model",
    )  # fmt: skip


class EmbedTaskSettings(
    ColumnSettings, FinetuneSettings,
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
):  # fmt: skip
    """Vectors of sentences: pairs, triplets, ratings, or texts alone."""

    task: ClassVar[str] = "embed"

    objective: str | None = option(
        None,
        "ranking: the second text among all of the batch; cosine: rated pairs; softmax: pairs with "
        "a class, as in Sentence-BERT; simcse: each text with itself under dropout (default: by "
        "the examples)",
        choices=("ranking", "cosine", "softmax", "simcse"), group="model",
    )  # fmt: skip
    pooling: str | None = option(
        None, "of the vectors of tokens (default: the model's, else mean)",
        choices=POOLINGS, group="model",
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


class FillSettings(
    BertSettings,
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
):  # fmt: skip
    """Masked words: go on with a BERT's masked language model on your text.

    The numbers are those of Gururangan et al. 2020 ("Don't stop pretraining", appendix): AdamW,
    1e-4 at its peak, a warm-up of 6 %, decay 0.01.
    """

    task: ClassVar[str] = "fill"

    # These follow from the model.
    vocab: ClassVar[str | None] = None
    vocab_size: ClassVar[int] = 8000
    cased: ClassVar[bool] = False
    examples: ClassVar[str | None] = None
    size: ClassVar[str] = "tiny"
    num_layers: ClassVar[int | None] = None
    hidden_size: ClassVar[int | None] = None
    num_heads: ClassVar[int | None] = None
    intermediate_size: ClassVar[int | None] = None
    max_positions: ClassVar[int | None] = None
    initializer_range: ClassVar[float] = 0.02
