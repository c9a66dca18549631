"""Co-occurrence counts against loops over the text, parts of any size, and their batches."""

import collections

import numpy as np
import pytest

from tfnlp.data import CooccurrenceBatches, Cooccurrences, WordCorpus
from tfnlp.data.corpus import cooccurrence

V = 23


def corpus(sentences=30, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 15, sentences)
    ids = np.minimum(rng.zipf(1.3, lengths.sum()) - 1, V - 1).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return WordCorpus([f"w{i}" for i in range(V)], ids, starts)


def by_hand(text, window, symmetric):
    found = collections.Counter()
    for first, last in zip(text.sentence_starts, text.sentence_starts[1:], strict=False):
        sentence = text.ids[first:last].tolist()
        for i, word in enumerate(sentence):
            for j, other in enumerate(sentence):
                if 0 < i - j <= window or symmetric and 0 < j - i <= window:
                    found[word, other] += 1 / abs(i - j)
    return found


def table(cells):
    return {
        (row, column): value
        for row, column, value in zip(cells.rows, cells.columns, cells.values, strict=True)
    }


@pytest.mark.slow
@pytest.mark.parametrize("window, symmetric", [(1, True), (3, True), (3, False), (40, True)])
def test_counts_are_those_of_loops_whatever_the_size_of_parts(window, symmetric):
    text = corpus()
    want = by_hand(text, window, symmetric)
    whole = Cooccurrences.count(text, window, symmetric)
    found = table(whole)
    assert found.keys() == want.keys() and len(found) == len(whole.rows)
    for cell, value in want.items():
        assert found[cell] == pytest.approx(value, rel=1e-6)
    few = table(whole.at_least(0.5))
    assert few == {cell: value for cell, value in found.items() if value >= 0.5} and len(few) > 5
    for part in (20, 500):
        cells = Cooccurrences.count(text, window, symmetric, part=part)
        for name in ("rows", "columns", "values"):
            np.testing.assert_array_equal(getattr(cells, name), getattr(whole, name))


def test_cells_that_follow_each_other_have_little_in_common():
    cells = Cooccurrences.count(corpus(400), 5)
    for ids in (cells.rows, cells.columns):
        assert abs(np.corrcoef(ids[1:], ids[:-1])[0, 1]) < 0.2
        halves = np.array_split(ids, 2)
        assert abs(halves[0].mean() - halves[1].mean()) < 3


def test_a_large_text_is_counted_once(tmp_path, monkeypatch):
    text = corpus()
    monkeypatch.setenv("TFNLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cooccurrence, "_LARGE", 10)
    first = cooccurrence.counted_once(text, 4, True)
    monkeypatch.setattr(cooccurrence, "_count_part", None)
    again = cooccurrence.counted_once(text, 4, True)
    np.testing.assert_array_equal(again.rows, first.rows)
    np.testing.assert_array_equal(again.values, first.values)


def test_a_text_without_pairs():
    alone = WordCorpus(["a", "b"], np.array([0, 1], np.int32), np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="no sentence of the text has two words"):
        Cooccurrences.count(alone)


def test_epochs_have_all_cells_once_in_other_orders(monkeypatch):
    monkeypatch.setattr(cooccurrence, "_CHUNK", 32)
    cells = Cooccurrences.count(corpus(), 3)
    size = len(cells.rows)
    assert size > 70 and size % 32
    data = CooccurrenceBatches(cells, batch_size=7, scale=2.0, seed=3)
    steps = 3 * size // 7 + 1
    batches = [data.batch(step) for step in range(steps)]
    rows = np.concatenate([
        np.stack([b["input_word_ids"], b["context_ids"], b["counts"]], 1) for b in batches
    ])  # fmt: skip
    want = sorted(zip(cells.rows, cells.columns, 2 * cells.values, strict=True))
    epochs = [rows[n * size : (n + 1) * size] for n in range(3)]
    for epoch in epochs:
        assert sorted(map(tuple, epoch.tolist())) == [tuple(map(float, cell)) for cell in want]
    assert (epochs[0] != epochs[1]).any() and (epochs[1] != epochs[2]).any()
    stored = np.stack([cells.rows, cells.columns], 1)
    assert (epochs[0][:, :2] == stored).all(1).mean() < 0.2


def test_evaluation_has_all_cells_and_padding():
    cells = Cooccurrences.count(corpus(), 3)
    data = CooccurrenceBatches(cells, batch_size=64)
    batches = list(data.evaluation_batches())
    counts = np.concatenate([b["counts"] for b in batches])
    size = len(cells.values)
    np.testing.assert_array_equal(counts[:size], cells.values)
    assert len(counts) == 64 * len(batches) > size and not counts[size:].any()
