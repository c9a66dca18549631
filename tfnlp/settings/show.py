"""Settings of `tfnlp show`."""

from typing import Any, ClassVar

from tfnlp.settings.options import option, with_summaries
from tfnlp.settings.use import ColumnSettings, ModelSettings


class ShowSettings(ModelSettings):
    """What all pictures take."""

    output: str = option(
        "show.html", "the page to write: one file, without a network", metavar="FILE"
    )


class AttentionSettings(ShowSettings):
    """What each head of a Transformer or a seq2seq model looks at."""

    text: list[str] = option(
        help="a text, also with masks, or two of a pair; of a model that translates a sentence "
        "and, if it is not the model's own, its translation",
        positional=True,
    )  # fmt: skip
    layer: int | None = option(None, "one layer, with its tokens, 1 the first", at_least=1)


class MixtureSettings(ShowSettings):
    """How much of each layer is in the mix that a fine-tuned model reads."""


class NeighbourSettings(ShowSettings):
    """Which words of a text are nearest to a word in its sentences, layer by layer."""

    word: str = option(help="the word", positional=True)
    texts: list[str] = option(
        [], "sentences that hold it; of word vectors none", positional=True, metavar="sentence"
    )
    among: Any = option(
        None, "texts whose words are compared, of files a text each line", flag="--input",
        metavar="FILE",
    )  # fmt: skip
    top: int = option(5, "neighbours", at_least=1)


class ProbeSettings(ColumnSettings, ShowSettings):
    """What a linear classifier finds in each layer of a frozen model."""

    skip_bad_rows: ClassVar[bool] = False

    task: str = option(
        help="tag: a tag of each word; classify: a class of each text",
        choices=("tag", "classify"), positional=True,
    )  # fmt: skip
    rows: Any = option(
        help="labelled examples, as for `tfnlp finetune`", flag="--input", metavar="FILE"
    )
    limit: int = option(1000, "examples that are read, of which a fifth is held out", at_least=10)


class WordsSettings(ShowSettings):
    """A map of word vectors."""

    words: list[str] = option([], "words (default: the most frequent)", positional=True)
    top: int = option(300, "most frequent words, where none are given", at_least=2)


# The sub-commands of `tfnlp show`.
PICTURES = with_summaries({
    "attention": AttentionSettings, "mixture": MixtureSettings, "neighbours": NeighbourSettings,
    "probe": ProbeSettings, "words": WordsSettings,
})  # fmt: skip
