"""Language models as families: what follows in a text, word by word or token by token."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

from tfnlp.checkpoints import Pretrained
from tfnlp.data import LanguageModelCorpus
from tfnlp.data.corpus.arrays import chunks
from tfnlp.data.texts import documents_of
from tfnlp.families.family import Family, Measured
from tfnlp.families.preparation import Documents, tokenized, tokenized_once
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
        """Return the perplexities of a whole text."""
        text = self.text_to_measure(loaded, settings)
        results = Trainer(text.objective, Adagrad(), 0.0).evaluate(text.batches)
        shown = f"{text.described}{self.perplexities(results)}"
        return Measured({**results, **text.counts}, shown)


def word_corpus(
    documents: Documents, words: list[str], lexicon: list[str] | None = None
) -> LanguageModelCorpus:
    """Return the `LanguageModelCorpus` of documents, see its `build`."""
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
