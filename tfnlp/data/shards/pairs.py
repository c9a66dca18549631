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
from tfnlp.data.shards.recipes import Recipe, example, grouped, grouped_tokens, in_order, merged

_A, _B = 0, 1
_COLUMNS = ("key", "number", "coins", "label", "target")  # of both halves of a pair


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
