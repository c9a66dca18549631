"""Settings of text: to pretrain on, to measure on, to make examples or a vocabulary of."""

from typing import Any, ClassVar

from tfnlp.settings.options import Settings, option
from tfnlp.settings.training import OutputSettings
from tfnlp.settings.use import EvaluationSettings

LAYOUTS = ("auto", "lines", "prose", "words")
LAYOUT_HELP = (
    "lines: a sentence a line, blank line between documents; prose: split into sentences; "
    "words: a word a line, blank line between sentences"
)
TOKENIZE_HELP = "split punctuation off the words first, if the text has not been tokenized yet"
TEXT_HELP = (
    "text files, globs, .gz files, tfds:NAME[:SPLIT], or book:NAME for one that ships with tfnlp "
    "(book:the_secret_garden)"
)


class CorpusSettings(Settings):
    """A text, its held-out part and its vocabulary."""

    text: Any = option(help=TEXT_HELP, flag="--input", metavar="FILE", group="text")
    layout: str = option("auto", LAYOUT_HELP, choices=LAYOUTS, group="text")
    valid: Any = option(None, "held-out text", metavar="FILE", group="text")
    held_out: float = option(
        0.05, "without held-out text: share of the text that is held out", group="text"
    )
    vocab: str | None = option(
        None, "vocabulary (GPT: its folder); built from the text if absent",
        metavar="FILE", group="text",
    )  # fmt: skip


class TextSettings(CorpusSettings, OutputSettings):
    """The text of a run."""


class WordTextSettings(TextSettings):
    """The text of models that predict words from a list."""

    tokenize: bool = option(False, TOKENIZE_HELP, group="text", record="text")
    max_vocab: int | None = option(
        None, "words to know, if the vocabulary is built", at_least=1, group="text"
    )
    min_count: int = option(1, "leave rarer words out of the vocabulary", at_least=1, group="text")


class SubwordTextSettings(TextSettings):
    """The text of models that read pieces of words: from files or from prepared examples."""

    text: Any = option(None, TEXT_HELP, flag="--input", metavar="FILE", group="text")
    vocab_size: int = option(8000, "size of the vocabulary if it is built", group="text")
    marks: list[str] = option(
        [],
        "tokens that are read where a text has them written, such as [SEP]; new ones are added, in "
        "the places of [unused1] and on where there are such (default: all is text)",
        metavar="TOKEN", group="text", record="training",
    )  # fmt: skip
    seq_length: int | None = option(
        128, "tokens a training sequence", group="text", record="training"
    )
    examples: str | None = option(
        None,
        "what `tfnlp examples` made of the text, in place of it; it decides the held-out text, "
        "the vocabulary, the sequence length and the seed",
        metavar="DIR", group="text",
    )  # fmt: skip


class MaskedTextSettings(SubwordTextSettings):
    """The text of models that fill masked pieces."""

    max_predictions: int | None = option(
        None, "masks a sequence (default 15 %)", at_least=1, group="text", record="training"
    )
    whole_word: bool = option(False, "mask whole words", group="text", record="training")


class PackSettings(Settings):
    """Whether rows of several documents keep them apart."""

    pack: bool = option(
        False,
        "rows of several documents that do not see each other, each with its own positions "
        "(default: rows run on over the ends of documents)",
        group="text", record="training",
    )  # fmt: skip


class MeasuredTextSettings(EvaluationSettings):
    """A text to measure a model on."""

    text: Any = option(help=TEXT_HELP, flag="--input", metavar="FILE")
    layout: str = option("auto", LAYOUT_HELP, choices=LAYOUTS)


class ExamplesSettings(
    CorpusSettings,
    held_out={"help": "without --valid: share of --input held out; training keeps it in memory"},
    vocab={
        "help": "vocabulary (byte pairs: a folder); built from --input if absent, by one process"
    },
):  # fmt: skip
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


class CasedExamplesSettings(ExamplesSettings):
    """Windows of sentences; masks are drawn when they are read."""

    cased: bool = option(False, "keep case and accents", group="text")


class PairExamplesSettings(CasedExamplesSettings):
    """Pairs of segments; masks are drawn when they are read."""

    short_seq_prob: float = option(0.1, "share of shorter pairs", group="text")


class VocabSettings(Settings):
    """Arguments of `tfnlp vocab`."""

    text: Any = option(help=TEXT_HELP, flag="--input", metavar="FILE")
    layout: str = option("auto", LAYOUT_HELP, choices=LAYOUTS)
    output: str = option(help="vocabulary file to write", metavar="FILE")
    size: int = option(8000, "number of tokens", at_least=1)
    cased: bool = option(False, "keep case and accents")
    min_frequency: int = option(2, "rarer pairs aren't merged", at_least=1)
