"""The shapes of prepared examples: what is read, what makes their shards, and rows on their way.

A recipe knows the shape of examples and nothing of the model that is trained on them: the family
gives it a function that makes the tokenizer, and the ids that its rows need. Workers exchange
tables of rows with tokens of any length: dicts of arrays.
"""

import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import ranges
from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.shards.pieces import Table


@dataclass(frozen=True)
class Recipe(abc.ABC):
    """One shape of examples: what is read, and how workers make the shards of an epoch.

    Each worker has a piece of the corpus. Shard s of epoch e has the number `e * shards + s`.
    """

    shape: ClassVar[str]  # the name in the manifest
    paragraphs: ClassVar[bool] = False  # prose is read as whole paragraphs, not as sentences
    requests: ClassVar[bool] = False  # rows of other pieces are needed: the method `answer`

    tokenizer: Callable[[], Any]  # makes the tokenizer; workers get it by pickle
    # Settings of the examples, which have "seq_length" and "seed", and shards of an epoch.
    chosen: dict[str, Any] = field(default_factory=dict, kw_only=True)
    shards: int = field(default=0, kw_only=True)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that decide the examples beside those of the text."""
        return {"shape": self.shape}

    def for_text(
        self,
        settings: dict[str, Any],
        shards: int,
        train: dict[str, int],
        corpora: Iterable[TokenizedCorpus | None],
    ) -> "Recipe":
        """Return the recipe for a text, after a check of its counts `train`.

        `corpora` are the training parts of the pieces, None for one without.
        """
        return replace(self, chosen=settings, shards=shards)

    @abc.abstractmethod
    def give(
        self, corpus: TokenizedCorpus, piece: int, table: Table, wanted: np.ndarray
    ) -> tuple[Iterable, Iterable]:
        """Return the rows of a piece for the `wanted` shards, and its requests to other pieces.

        They are ((shard, rows), ...) and ((piece, rows), ...). The corpus is that of the piece, the
        table that of all pieces.
        """

    @abc.abstractmethod
    def assemble(self, batches: Iterable[Any]) -> tuple[Iterator[bytes], dict]:
        """Return the records of a shard in their order, and its counts."""

    def _epochs(self, wanted: np.ndarray) -> list[int]:
        """Return the epochs of shards."""
        return np.unique(wanted // self.shards).tolist()

    def _shard_of(self, epoch: int, keys: np.ndarray) -> np.ndarray:
        """Return the shard of each key, uint64 [N].

        Shard s of S has the keys from s/S to (s + 1)/S of the range, so that sorted shards with
        sorted keys are all keys in order.
        """
        place = (keys >> 32) * np.uint64(self.shards) >> np.uint64(32)
        return epoch * self.shards + place.astype(np.int64)


def grouped(groups: np.ndarray, rows: dict[str, np.ndarray]) -> Iterator[tuple[int, dict]]:
    """Yield the rows (arrays [N]) of each group (ints [N]) in their order: (group, rows)."""
    order = np.argsort(groups, kind="stable")
    borders = np.flatnonzero(np.diff(groups[order])) + 1
    for chosen in np.split(order, borders) if len(order) else ():
        yield int(groups[chosen[0]]), {name: values[chosen] for name, values in rows.items()}


def grouped_tokens(
    groups: np.ndarray, tokens: np.ndarray, starts: np.ndarray, rows: dict[str, np.ndarray]
) -> Iterator[tuple[int, dict]]:
    """As `grouped`; each row also gets `lengths` tokens from `starts` [N] on."""
    for group, part in grouped(groups, {"starts": starts, **rows}):
        starts = part.pop("starts")
        yield group, {**part, "tokens": ranges(tokens, starts, part["lengths"])}


def merged(batches: Iterable[dict]) -> dict:
    """Return tables joined into one."""
    batches = list(batches)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def in_order(batches: Iterable[dict]) -> dict:
    """Return the rows of a shard by key, number and side; their tokens begin at `starts`."""
    rows = merged(batches)
    tokens = rows.pop("tokens")
    rows["starts"] = np.cumsum(rows["lengths"]) - rows["lengths"]
    order = np.lexsort((rows["side"], rows["number"], rows["key"]))
    return {"tokens": tokens, **{name: values[order] for name, values in rows.items()}}


def example(**features: list[int]) -> bytes:
    """Return a serialized `tf.train.Example` of lists of ints."""
    wrapped = {
        name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=wrapped)).SerializeToString(
        deterministic=True
    )
