"""Settings of the task embed."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.finetune import FinetuneSettings
from tfnlp.settings.options import option, redefine
from tfnlp.settings.use import POOLINGS, ColumnSettings

OBJECTIVES = ("ranking", "cosine", "softmax", "simcse")


@dataclasses.dataclass(kw_only=True)
@redefine(
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
class EmbedTaskSettings(ColumnSettings, FinetuneSettings):
    """Vectors of sentences: pairs, triplets, ratings, or texts alone."""

    task: ClassVar[str] = "embed"

    objective: str | None = option(
        None,
        "ranking: the second text among all of the batch; cosine: rated pairs; softmax: pairs with "
        "a class, as in Sentence-BERT; simcse: each text with itself under dropout (default: by "
        "the examples)",
        choices=OBJECTIVES, group="model",
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
