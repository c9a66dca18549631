"""Settings of `tfnlp examples`."""

import dataclasses
from typing import ClassVar

from tfnlp.settings.options import option, redefine
from tfnlp.settings.text import CorpusSettings


@dataclasses.dataclass(kw_only=True)
@redefine(
    held_out={"help": "without --valid: share of --input held out; training keeps it in memory"},
    vocab={
        "help": "vocabulary (byte pairs: a folder); built from --input if absent, by one process"
    },
)
class ExamplesSettings(CorpusSettings):
    """Raw text to shards of training examples, by an Apache Beam pipeline."""

    restart: ClassVar[bool] = False  # the same command again goes on where it was stopped
    output: str = option(help="folder of the examples", metavar="DIR", group="run")
    vocab_size: int = option(8000, "size of the vocabulary if it is built", group="text")
    seq_length: int = option(128, "tokens an example", at_least=1, group="text")
    seed: int = option(0, "of the examples; training uses it", group="text")
    epochs: int = option(4, "times through the text, each drawn afresh", at_least=1, group="text")
    shards: int | None = option(
        None, "files an epoch (default: one for 16 M tokens of text)", at_least=1,
        group="pipeline",
    )  # fmt: skip
    workers: int = option(1, "processes of the DirectRunner", at_least=1, group="pipeline")
    runner: str = option("DirectRunner", "Beam's runner", group="pipeline")
    pipeline_options: str = option(
        "", "options for Beam and its runner", metavar='="--OPTION=VALUE ..."', group="pipeline"
    )


@dataclasses.dataclass(kw_only=True)
class CasedExamplesSettings(ExamplesSettings):
    """Windows of sentences; masks are drawn when they are read."""

    cased: bool = option(False, "keep case and accents", group="text")


@dataclasses.dataclass(kw_only=True)
class PairExamplesSettings(CasedExamplesSettings):
    """Pairs of segments; masks are drawn when they are read."""

    short_seq_prob: float = option(0.1, "share of shorter pairs", group="text")
