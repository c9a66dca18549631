"""The role of each word for a predicate (semantic role labelling)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfnlp.data.labelled.tag_rows import RoleRows, RoleSentence
from tfnlp.data.labelled.tag_schemes import OUTSIDE, is_bio, split_sentence
from tfnlp.settings.tasks import RolesSettings
from tfnlp.tasks import report
from tfnlp.tasks.entities import entities, rates, tagging
from tfnlp.tasks.playground import Field
from tfnlp.tasks.sequences import Encoded, windows_of
from tfnlp.tasks.tag import WordPlayground, WordTask
from tfnlp.tasks.task import Inputs, Measures, Prediction
from tfnlp.text.words import word_places


class RolesPlayground(WordPlayground):
    """The roles of words for a predicate on a page."""

    title = "Roles"
    button = "Find roles"
    help = "The roles of the words around a predicate."
    takes = ({"text", "predicate"},)
    fields = (
        Field("text", "Sentence", "line", WordPlayground.example),
        Field("predicate", "Number of the predicate's word, from 0", "number", "2"),
    )

    def check(self, row: Mapping[str, Any]) -> None:
        count = len(word_places(row["text"], self.splitter))
        if row["predicate"] >= count:
            raise ValueError(
                f"predicate {row['predicate']} must be from 0 to {count - 1}, the number of a word"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roles(WordTask):
    """The role of each word for a predicate (semantic role labelling)."""

    name = "roles"
    Settings = RolesSettings
    form = RoleRows()
    playground = RolesPlayground
    does = "say which role each word of a sentence has for a predicate"
    main_measure = "f1"
    count_of_texts = 2
    takes = "a text and its predicate (a word of it, or its number from 0)"

    def example_of(self, texts: Sequence[str], number: int) -> RoleSentence:
        words = split_sentence(texts[0], self.splitter).words
        place = _predicate(words, texts[1].strip(), number)
        return RoleSentence(words, None, place, text=texts[0])

    @property
    def only_module(self) -> str:
        return super().only_module or "a predicate beside its words"

    def inputs_of(self, examples: Sequence[Any], first: int = 0) -> dict[str, Any]:
        predicates = tf.constant([e.predicate for e in examples], "int32")
        return {**super().inputs_of(examples, first), "predicate": predicates}

    @property
    def signatures(self) -> dict[str, dict[str, tf.TensorSpec]]:
        predicate = tf.TensorSpec([None], "int32", name="predicate")
        return {n: {**inputs, "predicate": predicate} for n, inputs in super().signatures.items()}

    def encode(self, reader: Any, inputs: Inputs, whole: bool) -> Encoded:
        """Encode words and `predicate`, int `[B]`, which word is the predicate, in windows.

        An encoder that is trained reads the predicate before the words, a segment of its own (Shi &
        Lin 2019), and has the segment 1 at the predicate among the words, else 0. A network on
        frozen layers reads the words alone, and `predicate_mask`, 1 at the predicate (He et al.
        2017).
        """
        pieces, words = self.pieces_of(reader, inputs)
        # Of a number that is none of a word the nearest: texts to serve are not checked.
        last = tf.maximum(pieces.row_lengths() - 1, 0)
        place = tf.clip_by_value(tf.cast(inputs["predicate"], "int64"), 0, last)
        chosen = pieces.row_starts() + place  # [B]
        first = None
        if whole:
            longest = self.max_length - reader.special_tokens(2) - 1
            padded = tf.concat([pieces.values, [[0]]], 0)  # of a sentence without words
            first = tf.gather(padded, chosen)[:, :longest]
        found = windows_of(reader, pieces, first, self.max_length, self.stride)
        of_row = tf.gather(tf.cast(chosen, "int32"), found["window_row"])  # [N]
        marked = tf.cast(found["token_word"] == of_row[:, None], "int32")  # [N, T]
        name = "input_type_ids" if whole else "predicate_mask"
        return {**found, **words, "inputs": {**found["inputs"], name: marked}}

    def measures(self, examples: Sequence[Any], predictions: Sequence[Prediction]) -> Measures:
        """Return accuracy, and precision, recall and f1 of roles, see `role_scores`."""
        return role_scores(self.golds(examples), self.predicted_tags(predictions))

    def given(self, example: Any) -> dict[str, Any]:
        return {**super().given(example), "predicate": example.predicate}

    def error_cells(self, row: report.Row) -> list[report.Cell]:
        words = [*row["words"]]
        words[row["predicate"]] = f"[{words[row['predicate']]}]"
        return super().error_cells({**row, "words": words})


def _predicate(words: Sequence[str], predicate: str, number: int) -> int:
    """Return the number of the word that a text says is the predicate."""
    places = [place for place, word in enumerate(words) if word == predicate]
    if len(places) == 1:
        return places[0]
    if predicate.isascii() and predicate.isdecimal() and int(predicate) < len(words):
        return int(predicate)
    found = "is not among its words" if not places else f"is {len(places)} of its words"
    raise ValueError(
        f"example {number}: the predicate {predicate!r:.60} {found}; give the word, or its number "
        f"from 0 to {len(words) - 1}"
    )


_OF_PREDICATES = ("V", "C-V")  # which are given

Role = tuple[str, int, int]


def roles(tags: Sequence[str], bio: bool) -> set[Role]:
    """Return the roles of one predicate as `(role, start, end)`, `end` exclusive.

    Without BIO tags of spans each word with a role is one, the head of an argument.
    """
    if bio:
        found = entities(tags)
    else:
        found = [(tag, i, i + 1) for i, tag in enumerate(tags) if tag != OUTSIDE]
    return {role for role in found if role[0] not in _OF_PREDICATES}


def role_scores(
    tags: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return accuracy over words and precision, recall and F1 of roles.

    Micro-averaged over all predicates, those of "V" left out, as in the evaluations of CoNLL-2005
    (spans) and CoNLL-2009 (heads). A role is right if its name and its words are. `tags` and
    `predicted` have one list of strings a predicate.
    """
    accuracy = tagging(tags, predicted, bio=False)
    bio = is_bio(tag for sentence in tags for tag in sentence)
    pairs = [(roles(a, bio), roles(b, bio)) for a, b in zip(tags, predicted, strict=True)]
    right = sum(len(gold & guess) for gold, guess in pairs)
    counts = right, sum(len(guess) for _, guess in pairs), sum(len(gold) for gold, _ in pairs)
    return {**accuracy, **rates(*counts)}
