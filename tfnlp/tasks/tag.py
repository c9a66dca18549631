"""A tag for each word: parts of speech, entities."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar

import tensorflow as tf

from tfnlp.data.labelled.tag_rows import TagRows
from tfnlp.data.labelled.tag_schemes import is_bio
from tfnlp.data.labelled.tagged_sentences import TaggedSentence, split_sentence
from tfnlp.settings.tasks import TagSettings
from tfnlp.tasks.entities import entity_scores
from tfnlp.tasks.playground import Field, Playground
from tfnlp.tasks.sequences import Encoded, windows_of
from tfnlp.tasks.task import Measures, Prediction
from tfnlp.tasks.words import WordPlayground, WordTask


class TagPlayground(WordPlayground):
    """The tags of words on a page."""

    title: ClassVar[str] = "Tag"
    button: ClassVar[str] = "Tag"
    help: ClassVar[str] = "The tag of each word."
    takes: ClassVar[tuple[Set[str], ...]] = ({"text"},)
    fields: ClassVar[tuple[Field, ...]] = (
        Field("text", "Texts, one a line", "lines",
              WordPlayground.example),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tag(WordTask):
    """A tag for each word: parts of speech, entities."""

    name: ClassVar[str] = "tag"
    Settings: ClassVar[type] = TagSettings
    form: ClassVar[TagRows] = TagRows()
    playground: ClassVar[type[Playground]] = TagPlayground
    does: ClassVar[str] = "tag the words of a sentence"
    count_of_texts: ClassVar[int] = 1
    takes: ClassVar[str] = "a text"

    def example_of(self, texts: Sequence[str], number: int) -> TaggedSentence:
        return split_sentence(texts[0], self.splitter)

    def encode(self, reader: Any, inputs: Mapping[str, Any], whole: bool) -> Encoded:
        words = self.words_in(inputs)
        pieces, numbered = self.pieces_of(reader, words)
        found = windows_of(reader, pieces, None, self.max_length, self.stride)
        is_cut = tf.zeros([words.nrows()], tf.int32)  # windows read everything
        return {**found, "is_cut": is_cut, "words": numbered, "lengths": words.row_lengths()}

    @property
    def main_measure(self) -> str:
        return "f1" if is_bio(self.labels) else "accuracy"  # F1 of entities

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return accuracy and, of BIO tags, precision, recall and f1 of the entities."""
        return tagging(self.golds(examples), self.predicted_tags(predictions))


def tagging(
    tags: Iterable[Iterable[str]], predicted: Iterable[Iterable[str]], bio: bool | None = None
) -> Measures:
    """Return accuracy over words and, for tags of entities, precision, recall and F1 of entities.

    An entity counts when both its ends and its type are right; see `tfnlp.tasks.entities`. `bio`
    says whether tags mark entities; None: as `is_bio` finds in `tags`.
    """
    tags, predicted = [list(t) for t in tags], [list(t) for t in predicted]
    flat = [tag for sentence in tags for tag in sentence]
    flat_predicted = [tag for sentence in predicted for tag in sentence]
    right = sum(a == b for a, b in zip(flat, flat_predicted, strict=True))
    values = {"accuracy": right / len(flat)}
    if is_bio(flat) if bio is None else bio:
        values |= entity_scores(tags, predicted)
    return values
