"""Sentence pairs, shard by shard: each worker draws the pairs of a piece of the corpus.

A is in the worker's piece, and so is a B that follows it. A random B is requested from the worker
that has its piece. Both halves of a pair go to their shard, where they are joined, truncated and
sorted. `SentencePairs`, which has the whole corpus, uses the same functions (`sentence_pairs`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tfnlp.data.corpus.arrays import ranges
from tfnlp.data.corpus.corpora import TokenizedCorpus
from tfnlp.data.pretraining.sentence_pairs import (
    Pairs,
    check_corpus,
    drawn_blocks,
    partner_end,
    truncate,
)
from tfnlp.data.shards.pieces import Table
from tfnlp.data.shards.recipes import Recipe, example, grouped, grouped_tokens, merged

_A, _B = 0, 1


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
            pairs = Pairs(*map(np.concatenate, zip(*blocks, strict=True)))
            shard = self._shard_of(epoch, pairs.key)
            chosen = np.isin(shard, wanted)
            pairs, shard = Pairs(*(values[chosen] for values in pairs)), shard[chosen]
            names = ("key", "place", "coins", "label", "target")
            rows = {name: getattr(pairs, name) for name in names}
            halves += self._half(_A, corpus, begin, shard, pairs.a, pairs.a_end, rows)
            random, true = pairs.is_random, ~pairs.is_random
            rows = {"key": pairs.key[true], "place": pairs.place[true]}
            halves += self._half(
                _B, corpus, begin, shard[true], pairs.b[true], pairs.b_end[true], rows
            )
            names = ("key", "place", "b", "b_end", "space")
            rows = {"shard": shard, **{name: getattr(pairs, name) for name in names}}
            where = np.searchsorted(first_sentences, pairs.b[random], "right") - 1
            asks += grouped(where, {name: values[random] for name, values in rows.items()})
        return halves, asks

    def answer(
        self, corpus: TokenizedCorpus, piece: int, table: Table, asks: Iterable[dict]
    ) -> list:
        """Return the rows that other pieces requested of a piece: ((shard, rows), ...)."""
        asks = merged(asks)
        begin = table.documents[table.first_document[piece]]
        limit = asks["b_end"] - begin
        end = partner_end(corpus.sentence_starts, asks["b"] - begin, limit, asks["space"])
        rows = {name: asks[name] for name in ("key", "place")}
        return self._half(_B, corpus, begin, asks["shard"], asks["b"], begin + end, rows)

    def assemble(self, batches: Iterable[tuple[int, dict]]) -> tuple[Iterator[bytes], dict]:
        sides = {_A: [], _B: []}
        for side, rows in batches:
            sides[side].append(rows)
        if not sides[_A]:
            return iter(()), self._counts(0, 0)
        a, b = (_ordered(merged(sides[side])) for side in (_A, _B))
        if a["place"].tolist() != b["place"].tolist():
            raise OSError("a shard lacks halves of its pairs; give the same command again")
        lengths = np.stack([a["lengths"], b["lengths"]], axis=1)  # [N, 2]
        front, keep = truncate(lengths, a["coins"], self.chosen["seq_length"])
        tokens = [
            ranges(half["tokens"], half["starts"] + front[:, side], keep[:, side]).tolist()
            for side, half in ((_A, a), (_B, b))
        ]
        ends = [np.cumsum(keep[:, side]).tolist() for side in (_A, _B)]
        name = label_feature(self.second)

        def records() -> Iterator[bytes]:
            at = [0, 0]
            for a_end, b_end, label, target in zip(
                *ends, a["label"].tolist(), a["target"].tolist(), strict=True
            ):
                yield example(
                    a=tokens[_A][at[_A] : a_end],
                    b=tokens[_B][at[_B] : b_end],
                    target=[target],
                    **({} if name is None else {name: [int(label)]}),
                )
                at = [a_end, b_end]

        return records(), self._counts(len(lengths), int(a["label"].sum()))

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
        shard: np.ndarray,
        first: np.ndarray,
        end: np.ndarray,
        rows: dict[str, np.ndarray],
    ) -> list[tuple[int, tuple[int, dict]]]:
        """Return (shard, (side, rows)) of the sentences first to end - 1."""
        starts = corpus.sentence_starts[first - begin]
        rows = {**rows, "lengths": corpus.sentence_starts[end - begin] - starts}
        return [(s, (side, r)) for s, r in grouped_tokens(shard, corpus.tokens, starts, rows)]


def label_feature(second: str) -> str | None:
    """Return the name of the label in a record, None if there is none."""
    return None if second == "following" else f"is_{second}"


def _ordered(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return rows sorted by (key, place), without moving their tokens, which begin at `starts`."""
    tokens = rows.pop("tokens")
    rows["starts"] = np.cumsum(rows["lengths"]) - rows["lengths"]
    order = np.lexsort((rows["place"], rows["key"]))
    return {"tokens": tokens, **{name: values[order] for name, values in rows.items()}}
