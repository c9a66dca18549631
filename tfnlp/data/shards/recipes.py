"""The shapes of prepared examples: what is read, and what makes their shards.

A recipe knows the shape of examples and nothing of the model that is trained on them: the family
gives it a function that makes the tokenizer, and the ids that its rows need. Each worker has a
piece of the corpus. Workers exchange tables of rows with tokens of any length: dicts of arrays.

windows   A window across the end of a piece is joined in its shard from the parts of the pieces.
          Where those of whole sentences begin in a piece depends on all pieces before it, so one
          process counts them first, from the lengths of sentences alone.
pairs     A is in the worker's piece, and so is a B that follows it. A random B is requested from
          the worker that has its piece. Both halves go to their shard, which joins and truncates
          them.
"""

import abc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfnlp.data.corpus.arrays import ranges
from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.pretraining.masked_windows import fill_windows
from tfnlp.data.pretraining.sentence_pairs import (
    Pairs,
    check_corpus,
    drawn_blocks,
    partner_end,
    truncate,
)
from tfnlp.data.pretraining.token_stream import (
    count_windows,
    token_stream,
    window_keys,
    window_shift,
)
from tfnlp.data.shards.pieces import Table

_A, _B = 0, 1
_COLUMNS = ("key", "number", "coins", "label", "target")  # of both halves of a pair


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


class _Windows(Recipe):
    """Windows whose shards and order follow from the seed."""

    size: int | None = None  # tokens of each window; None: any number

    def _parts(
        self,
        epochs: Iterable[int],
        piece: int,
        wanted: np.ndarray,
        numbers: np.ndarray,
        tokens: np.ndarray,
        begins: np.ndarray,
        ends: np.ndarray,
    ) -> Iterator[tuple[int, dict]]:
        """Yield what a piece has of the windows of epochs: (wanted shard, rows with tokens).

        Their numbers are consecutive, [N]; `begins` and `ends` are places in the piece's tokens.
        """
        for epoch in epochs:
            keys = window_keys(int(numbers[0]), int(numbers[-1]) + 1, self.chosen["seed"], epoch)
            shard = self._shard_of(epoch, keys)
            side = np.full(len(numbers), piece)
            rows = {"key": keys, "number": numbers, "side": side, "lengths": ends - begins}
            chosen = np.isin(shard, wanted)
            rows = {name: values[chosen] for name, values in rows.items()}
            yield from grouped_tokens(shard[chosen], tokens, begins[chosen], rows)

    def assemble(self, batches: Iterable[dict]) -> tuple[Iterator[bytes], dict]:
        batches, windows = list(batches), []
        if batches:
            rows = in_order(batches)
            borders = np.flatnonzero(np.diff(rows["number"])) + 1
            tokens = ranges(rows["tokens"], rows["starts"], rows["lengths"])
            windows = np.split(tokens, np.cumsum(rows["lengths"])[borders - 1])
        if self.size is not None and any(len(ids) != self.size for ids in windows):
            raise OSError("a shard lacks parts of its windows; give the same command again")
        return (example(ids=ids.tolist()) for ids in windows), {"examples": len(windows)}


@dataclass(frozen=True)
class WindowRecipe(_Windows):
    """Windows of `TokenWindows` over a `token_stream`, with the key "seq_length" of settings."""

    shape: ClassVar[str] = "windows"
    paragraphs: ClassVar[bool] = True

    newline_id: int
    end_id: int

    @property
    def size(self) -> int:
        return self.chosen["seq_length"] + 1

    def for_text(
        self, settings: dict[str, Any], shards: int, train: dict[str, int], corpora: Iterable
    ) -> Recipe:
        count_windows(1 + train["tokens"] + train["sentences"], settings["seq_length"])
        return super().for_text(settings, shards, train, corpora)

    def give(
        self, corpus: TokenizedCorpus, piece: int, table: Table, wanted: np.ndarray
    ) -> tuple[Iterable, Iterable]:
        stream = token_stream(corpus, self.newline_id, self.end_id)
        first = int(table.first_document[piece])
        # The end token before a document belongs to the piece of the document before it.
        begin = int(table.first_token[piece] + table.documents[first])
        if first:
            stream, begin = stream[1:], begin + 1
        end = begin + len(stream)
        length = int(1 + table.first_token[-1] + table.documents[-1])
        window = self.chosen["seq_length"]
        count = count_windows(length, window)
        parts = []
        for epoch in self._epochs(wanted):
            shift = window_shift(length, window, self.chosen["seed"], epoch)
            # Window w has the places shift + w T to shift + (w + 1) T.
            lowest = max(0, -(-(begin - shift) // window) - 1)
            highest = min(count - 1, (end - 1 - shift) // window)
            if highest < lowest:
                continue
            numbers = np.arange(lowest, highest + 1)
            starts = np.maximum(shift + numbers * window, begin) - begin
            ends = np.minimum(shift + (numbers + 1) * window + 1, end) - begin
            parts += self._parts([epoch], piece, wanted, numbers, stream, starts, ends)
        return parts, []


@dataclass(frozen=True)
class MaskedWindowRecipe(_Windows):
    """Windows of `MaskedWindows`, with the key "seq_length" of settings."""

    shape: ClassVar[str] = "masked_windows"

    sep_id: int  # between documents
    # For each piece the number of windows that begin before it, and the filled places of the last.
    entries: tuple[tuple[int, int], ...] = ()

    def for_text(
        self, settings: dict[str, Any], shards: int, train: dict[str, int], corpora: Iterable
    ) -> Recipe:
        recipe = super().for_text(settings, shards, train, corpora)
        entries, number, used = [], 0, 0
        for corpus in corpora:
            entries.append((number, used))
            if corpus is not None:
                starts, used = recipe._fill(corpus, used)
                number += len(starts)
        return replace(recipe, entries=tuple(entries))

    def give(
        self, corpus: TokenizedCorpus, piece: int, table: Table, wanted: np.ndarray
    ) -> tuple[Iterable, Iterable]:
        number, used = self.entries[piece]
        starts, _ = self._fill(corpus, used)
        if used and (not len(starts) or starts[0] > 0):  # the window before goes on
            number, starts = number - 1, np.concatenate([[0], starts])
        numbers = number + np.arange(len(starts))
        # A separator before each document; a window neither begins nor ends with one.
        documents = corpus.sentence_starts[corpus.document_starts[:-1]]
        stream = np.insert(corpus.tokens.astype(np.int32), documents, self.sep_id)
        begin = starts + np.searchsorted(documents, starts, "right")
        end = starts[1:] + np.searchsorted(documents, starts[1:], "left")
        if used and numbers[0] < self.entries[piece][0]:
            begin[0] = 0  # with the separator before the first document
        end = np.append(end, len(stream))
        return self._parts(self._epochs(wanted), piece, wanted, numbers, stream, begin, end), []

    def _fill(self, corpus: TokenizedCorpus, used: int) -> tuple[np.ndarray, int]:
        first = corpus.begins_document(0, corpus.num_sentences)
        lengths = np.diff(corpus.sentence_starts)
        return fill_windows(lengths, first, self.chosen["seq_length"] - 2, used)


@dataclass(frozen=True)
class PairRecipe(Recipe):
    """Pairs of `SentencePairs`, with the keys "seq_length" and "short_seq_prob" of settings."""

    shape: ClassVar[str] = "pairs"
    requests: ClassVar[bool] = True

    second: str = "random"

    @property
    def settings(self) -> dict[str, Any]:
        return {"shape": self.shape, "second": self.second}

    def for_text(
        self, settings: dict[str, Any], shards: int, train: dict[str, int], corpora: Iterable
    ) -> Recipe:
        probability = settings["short_seq_prob"]
        check_corpus(train["sentences"], train["documents"], probability, self.second)
        return super().for_text(settings, shards, train, corpora)

    def give(
        self, corpus: TokenizedCorpus, piece: int, table: Table, wanted: np.ndarray
    ) -> tuple[Iterable, Iterable]:
        halves, asks = [], []
        first, starts = int(table.first_document[piece]), corpus.sentence_starts
        begin = table.documents[first]
        first_sentences = table.documents[table.first_document]  # [K + 1]
        drawn = {name: self.chosen[name] for name in ("seq_length", "short_seq_prob", "seed")}
        for epoch in self._epochs(wanted):
            blocks = drawn_blocks(
                starts, table.documents, first, epoch=epoch, second=self.second, **drawn
            )
            pairs = Pairs(*map(np.concatenate, zip(*blocks, strict=True)))._asdict()
            shard = self._shard_of(epoch, pairs["key"])
            chosen = np.isin(shard, wanted)
            pairs = {name: values[chosen] for name, values in {**pairs, "shard": shard}.items()}
            halves += self._half(_A, corpus, begin, pairs, pairs["a"], pairs["a_end"])
            random, true = (
                {name: values[which] for name, values in pairs.items()}
                for which in (pairs["is_random"], ~pairs["is_random"])
            )
            halves += self._half(_B, corpus, begin, true, true["b"], true["b_end"])
            where = np.searchsorted(first_sentences, random["b"], "right") - 1
            names = ("shard", "b", "b_end", "space", *_COLUMNS)
            asks += grouped(where, {name: random[name] for name in names})
        return halves, asks

    def answer(
        self, corpus: TokenizedCorpus, piece: int, table: Table, asks: Iterable[dict]
    ) -> list:
        """Return the rows that other pieces requested of a piece: ((shard, rows), ...)."""
        asks = merged(asks)
        begin = table.documents[table.first_document[piece]]
        limit = asks["b_end"] - begin
        end = partner_end(corpus.sentence_starts, asks["b"] - begin, limit, asks["space"])
        return self._half(_B, corpus, begin, asks, asks["b"], begin + end)

    def assemble(self, batches: Iterable[dict]) -> tuple[Iterator[bytes], dict]:
        batches = list(batches)
        if not batches:
            return iter(()), self._counts(0, 0)
        rows = in_order(batches)  # A and B in turn
        if rows["number"][::2].tolist() != rows["number"][1::2].tolist():
            raise OSError("a shard lacks halves of its pairs; give the same command again")
        lengths = rows["lengths"].reshape(-1, 2)  # [N, 2]
        front, keep = truncate(lengths, rows["coins"][::2], self.chosen["seq_length"])
        tokens = ranges(rows["tokens"], rows["starts"] + front.ravel(), keep.ravel()).tolist()
        ends, labels = np.cumsum(keep.ravel()).tolist(), rows["label"][::2]
        name = label_feature(self.second)

        def records() -> Iterator[bytes]:
            start = 0
            for a_end, b_end, label, target in zip(
                ends[::2], ends[1::2], labels.tolist(), rows["target"][::2].tolist(), strict=True
            ):
                yield example(
                    a=tokens[start:a_end],
                    b=tokens[a_end:b_end],
                    target=[target],
                    **({} if name is None else {name: [int(label)]}),
                )
                start = b_end

        return records(), self._counts(len(lengths), int(labels.sum()))

    def _counts(self, total: int, labelled: int) -> dict[str, int]:
        if self.second == "following":
            return {"examples": total}
        others = "real" if self.second == "random" else "in_order"
        return {"examples": total, others: total - labelled, self.second: labelled}

    def _half(
        self,
        side: int,
        corpus: TokenizedCorpus,
        begin: int,
        pairs: dict[str, np.ndarray],
        first: np.ndarray,
        end: np.ndarray,
    ) -> list[tuple[int, dict]]:
        """Return (shard, rows) of the sentences first to end - 1 of pairs."""
        starts = corpus.sentence_starts[first - begin]
        rows = {name: pairs[name] for name in _COLUMNS}
        rows["side"] = np.full(len(starts), side)
        rows["lengths"] = corpus.sentence_starts[end - begin] - starts
        return list(grouped_tokens(pairs["shard"], corpus.tokens, starts, rows))


def label_feature(second: str) -> str | None:
    """Return the name of the label in a record, None if there is none."""
    return None if second == "following" else f"is_{second}"


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
