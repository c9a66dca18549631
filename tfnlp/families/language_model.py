"""Language models as families: what follows in a text, word by word or token by token."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

from tfnlp.checkpoints import Pretrained
from tfnlp.data import LanguageModelCorpus
from tfnlp.data.corpus.arrays import chunks, int32_checksum
from tfnlp.data.texts import documents_of
from tfnlp.families.family import Family, Measured
from tfnlp.families.preparation import (
    Documents,
    Preparation,
    documents,
    tokenized,
    tokenized_once,
    tokens_of,
)
from tfnlp.families.vocabularies import WORDS
from tfnlp.training import Adagrad, Trainer


@dataclasses.dataclass(frozen=True)
class TextToMeasure:
    """A text as batches, and what is counted of it."""

    objective: Any
    batches: Any
    counts: dict[str, int]
    described: str  # the counts, for people


class LanguageModel(Family):
    """A model that is measured by its perplexity on a text."""

    @abc.abstractmethod
    def text_to_measure(self, loaded: Pretrained, settings: Any) -> TextToMeasure:
        """Return the batches of a text, and what is learnt of them."""

    @abc.abstractmethod
    def perplexities(self, results: dict[str, float]) -> str:
        """Return the perplexities of an evaluation, for people."""

    def evaluate(self, loaded: Pretrained, settings: Any) -> Measured:
        text = self.text_to_measure(loaded, settings)
        results = Trainer(text.objective, Adagrad(), 0.0).evaluate(text.batches)
        shown = f"{text.described}{self.perplexities(results)}"
        return Measured({**results, **text.counts}, shown)


class RunningText(Preparation):
    """The words of a text, with those that stand for ends and unknown ones.

    Args:
        words: Those of a model to go on from; None: they are read or learnt.
        together: Whether unknown words of both parts have numbers of their own.
    """

    vocabulary = WORDS
    text = {}

    def __init__(
        self,
        family: LanguageModel,
        settings: Any,
        words: list[str] | None = None,
        together: bool = False,
    ) -> None:
        self.family, self.settings = family, settings
        train, valid = (tokenized(part, settings.tokenize) for part in documents(settings))
        self.tokens = tokens_of(settings, WORDS, train) if words is None else words
        self.train = _corpus(train, self.tokens)
        self.valid = _corpus(valid, self.tokens, self.train.lexicon if together else None)
        self.corpus = {"tokens": self.train.num_tokens, "crc32": int32_checksum(self.train.ids)}

    def counted(self, epoch: str) -> str:
        """Return sizes of the text, and how long an epoch is."""
        return (
            f"{self.train.num_tokens:,} tokens of {self.train.num_sentences:,} sentences, {epoch} "
            f"updates an epoch; held out: {self.valid.num_tokens:,} tokens"
        )

    def line(self, when: str, results: dict[str, float]) -> str:
        return f"held out, full softmax, {when}: {self.family.perplexities(results)}"


def _corpus(
    documents: Documents, words: list[str], lexicon: list[str] | None = None
) -> LanguageModelCorpus:
    return tokenized_once(
        documents,
        ["lexicon", words, lexicon],
        lambda folder: LanguageModelCorpus.build(documents, words, lexicon, folder=folder),
        LanguageModelCorpus.read,
    )


def corpus_to_measure(loaded: Pretrained, settings: Any) -> LanguageModelCorpus:
    """Return the words of a text, split as those that the model was trained on."""
    tokenize = settings.tokenize or loaded.run.get("text", {}).get("tokenize", False)
    documents = tokenized(list(documents_of(settings.text, settings.layout)), tokenize)
    return LanguageModelCorpus.build(documents, loaded.words)


def words_to_measure(corpus: LanguageModelCorpus, objective: Any, batches: Any) -> TextToMeasure:
    """Return a text of words with its counts."""
    unknown = sum(
        int(((ids >= corpus.vocab_size) | (ids == corpus.unknown_id)).sum())
        for ids in chunks(corpus.ids)
    )
    counts = {
        "sentences": corpus.num_sentences,
        "words": corpus.num_words,
        "unknown_words": unknown,
        "tokens": corpus.num_tokens,
    }
    described = (
        f"{counts['tokens']:,} tokens: {counts['words']:,} words "
        f"({counts['unknown_words']:,} of them not in the vocabulary) and the ends of "
        f"{counts['sentences']:,} sentences\nfull softmax: "
    )
    return TextToMeasure(objective, batches, counts, described)
