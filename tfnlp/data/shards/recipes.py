"""The shapes of prepared examples: what is read, and what makes their shards.

A recipe knows the shape of examples and nothing of the model that is trained on them: the family
gives it a function that makes the tokenizer, and the ids that its rows need.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from tfnlp.data.corpus.tokenized_corpus import TokenizedCorpus
from tfnlp.data.pretraining.sentence_pairs import check_corpus
from tfnlp.data.pretraining.token_stream import count_windows
from tfnlp.data.shards.masked_windows import MaskedWindowExamples
from tfnlp.data.shards.pairs import PairExamples
from tfnlp.data.shards.windows import WindowExamples

Maker = PairExamples | WindowExamples | MaskedWindowExamples


@dataclass(frozen=True)
class Recipe:
    """What all shapes of examples have.

    Attributes:
        shape: the name in the manifest.
        paragraphs: whether prose is read as whole paragraphs, not as sentences.
        tokenizer: function that makes the tokenizer; workers get it by pickle.
    """

    shape: ClassVar[str]
    paragraphs: ClassVar[bool] = False

    tokenizer: Callable[[], Any]

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that decide the examples beside those of the text."""
        return {"shape": self.shape}

    def maker(
        self,
        settings: dict,
        shards: int,
        train: dict,
        corpora: Callable[[], Iterable[TokenizedCorpus | None]],
    ) -> Maker:
        """Return what makes shards, of which an epoch has `shards`.

        Args:
            train: counts of the training text.
            corpora: function that reads the training part of each piece, None if there is none.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class PairRecipe(Recipe):
    """Sentence pairs, with the keys "seq_length" and "short_seq_prob" of settings.

    Attributes:
        second: how the second segment is drawn, see `SentencePairs`.
    """

    shape: ClassVar[str] = "pairs"

    second: str = "random"

    @property
    def settings(self) -> dict[str, Any]:
        return {"shape": self.shape, "second": self.second}

    def maker(self, settings: dict, shards: int, train: dict, corpora: Callable) -> PairExamples:
        probability = settings["short_seq_prob"]
        check_corpus(train["sentences"], train["documents"], probability, self.second)
        return PairExamples(
            settings["seq_length"], probability, settings["seed"], shards, self.second
        )


@dataclass(frozen=True)
class MaskedWindowRecipe(Recipe):
    """Windows of whole sentences, with the key "seq_length" of settings.

    Attributes:
        sep_id: the token between documents.
    """

    shape: ClassVar[str] = "masked_windows"

    sep_id: int

    def maker(
        self, settings: dict, shards: int, train: dict, corpora: Callable
    ) -> MaskedWindowExamples:
        return MaskedWindowExamples.of_pieces(
            corpora(),
            settings["seq_length"],
            seed=settings["seed"],
            shards=shards,
            sep_id=self.sep_id,
        )


@dataclass(frozen=True)
class WindowRecipe(Recipe):
    """Windows of the stream of tokens, with the key "seq_length" of settings.

    Attributes:
        newline_id, end_id: see `token_stream`.
    """

    shape: ClassVar[str] = "windows"
    paragraphs: ClassVar[bool] = True

    newline_id: int
    end_id: int

    def maker(self, settings: dict, shards: int, train: dict, corpora: Callable) -> WindowExamples:
        count_windows(1 + train["tokens"] + train["sentences"], settings["seq_length"])
        return WindowExamples(
            settings["seq_length"], settings["seed"], shards, self.newline_id, self.end_id
        )
