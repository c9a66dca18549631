"""Rows of several documents and windows of sentences, and batches of these rows."""

import numpy as np
import pytest

from tests.data.synthetic import as_numpy, make_corpus, unmasked
from tfnlp.data import MaskedDocuments, MaskedWindows, PackedDocuments, PackedPairs, SentencePairs
from tfnlp.data.pretraining import masked_windows
from tfnlp.data.pretraining.packed_rows import first_fit

END, CLS, SEP, PAD = 0, 2, 3, 0


def fitted_one_by_one(lengths, space, near):
    """First fit, the longest first, as one would write it down."""
    rows = []
    for begin in range(0, len(lengths), near):
        opened = []
        part = range(begin, min(begin + near, len(lengths)))
        for number in sorted(part, key=lambda n: -lengths[n]):
            for row in opened:
                if sum(lengths[n] for n in row) + lengths[number] <= space:
                    row.append(number)
                    break
            else:
                opened.append([number])
        rows += opened
    return [sorted(row) for row in rows]


@pytest.mark.parametrize(("count", "space", "near"), [(200, 30, 64), (7, 5, 7), (1, 9, 4)])
def test_first_fit(count, space, near):
    lengths = np.random.default_rng(count).integers(1, space + 1, count)
    order, starts = first_fit(lengths, space, near)
    rows = [sorted(part.tolist()) for part in np.split(order, starts[1:-1])]
    assert rows == fitted_one_by_one(lengths.tolist(), space, near)


def stream(sizes=(3, 40, 1, 12, 9, 9, 25, 2, 30, 7)):
    """Documents of tokens that say where they stand, 1, 2, ..., between ends, 0."""
    rows = np.split(np.arange(1, 1 + sum(sizes), dtype=np.int32), np.cumsum(sizes)[:-1])
    return np.concatenate([[END], *(np.append(row, END) for row in rows)]).astype(np.int32)


def documents_of(batch):
    """`(tokens, targets, weights)` of each sequence of a batch."""
    for row, ids in enumerate(batch["sequence_ids"]):
        assert ((ids > 0) == batch["input_mask"][row]).all()
        assert (np.diff(ids[ids > 0]) >= 0).all() and not batch["weights"][row][ids == 0].any()
        for number in range(1, ids.max() + 1):
            of = ids == number
            yield tuple(batch[key][row][of] for key in ("input_word_ids", "targets", "weights"))


def test_rows_hold_documents_of_a_stream_each_once_in_an_epoch():
    text = stream()
    packed = PackedDocuments(text, END, batch_size=2, window=16, seed=3)
    epochs, order = 3, []
    batches = -(-epochs * packed.rows_per_epoch // 2)
    rows = [packed.batch(step) for step in range(batches)]
    together = {key: np.concatenate([b[key] for b in rows]) for key in rows[0]}
    for epoch in range(epochs):
        part = slice(epoch * packed.rows_per_epoch, (epoch + 1) * packed.rows_per_epoch)
        targets = []
        for tokens, following, weights in documents_of({k: x[part] for k, x in together.items()}):
            assert (tokens[1:] == following[:-1]).all() and weights.all()
            assert END not in tokens[1:] and END not in following[:-1]  # of one document
            assert following[-1] in (tokens[-1] + 1, END)
            targets += following.tolist()
        assert sorted(targets) == sorted(text[1:].tolist())
        order.append(together["input_word_ids"][part].tobytes())
    assert len(set(order)) == epochs


def test_an_evaluation_counts_each_token_once_with_what_is_before_it():
    packed = PackedDocuments(stream(), END, batch_size=3, window=16)
    for stride in (16, 5, 1):
        targets = []
        for batch in packed.evaluation_batches(stride=stride):
            for tokens, following, weights in documents_of(as_numpy(batch)):
                targets += following[weights > 0].tolist()
                begins = tokens[0] == END
                assert weights.all() if begins else not weights[: 16 - stride].any()
        assert sorted(targets) == sorted(stream()[1:].tolist())


def masked(sizes=(2, 1, 9, 1, 1, 3) * 6, longest=30, **arguments):
    corpus, tokenizer = make_corpus(sizes, longest=longest)
    arguments = {"batch_size": 4, "seq_length": 64, "max_predictions": 10, **arguments}
    return MaskedDocuments(corpus, tokenizer, **arguments)


def test_masked_rows_hold_whole_sentences_of_documents():
    batches = masked(longest=90)
    corpus, left = batches.corpus, set(range(batches.corpus.num_tokens))
    ends = set(corpus.sentence_starts.tolist())
    for step in range(batches.steps_per_epoch):
        batch = as_numpy(batches.batch(step))
        assert {x.shape for x in batch.values()} == {(4, 64), (4, 10)}
        assert not batch["input_type_ids"].any()
        used = batch["masked_lm_weights"] > 0
        assert used.any(axis=1).all() and (batch["masked_lm_ids"][used] >= 5).all()
        for ids, numbers in zip(unmasked(batch), batch["sequence_ids"], strict=True):
            assert (ids[numbers == 0] == PAD).all()
            for number in range(1, numbers.max() + 1):
                sequence = ids[numbers == number]
                tokens = sequence[1:-1] - 5  # positions in the corpus
                assert sequence[0] == CLS and sequence[-1] == SEP
                assert (np.diff(tokens) == 1).all()
                left -= set(tokens.tolist())
                documents = np.searchsorted(corpus.sentence_starts, tokens[[0, -1]], "right") - 1
                first, last = np.searchsorted(corpus.document_starts, documents, "right")
                assert first == last
                # Cut between sentences, but for one that is longer than a row.
                assert tokens[-1] + 1 in ends or len(tokens) == 62 or documents[0] == documents[1]
    assert len(left) < 4 * 62  # those of the rows that do not fill a batch


def test_bad_arguments_are_refused():
    for name, value in (("window", 0), ("seed", -1), ("end_id", 5)):
        given = {"end_id": END, "batch_size": 2, "window": 8, name: value}
        with pytest.raises(ValueError, match=name):
            PackedDocuments(stream(), given.pop("end_id"), **given)
    packed = PackedDocuments(stream(), END, batch_size=2, window=8)
    for stride in (0, 9):
        with pytest.raises(ValueError, match="stride"):
            packed.evaluation_batches(stride=stride)


@pytest.mark.parametrize("second", ["random", "swapped", "following"])
def test_packed_pairs_are_the_pairs_of_the_epoch(second):
    corpus, tokenizer = make_corpus((1, 3, 2, 5, 1, 2) * 8, longest=9)
    settings = dict(batch_size=1, seq_length=64, max_predictions=10, seed=2, second=second)
    rows, alone = (make(corpus, tokenizer, **settings) for make in (PackedPairs, SentencePairs))
    assert rows.steps_per_epoch < 0.7 * alone.num_examples
    label = {"random": "next_sentence", "swapped": "sentence_order"}.get(second)
    found = []
    for step in range(rows.steps_per_epoch):
        batch = as_numpy(rows.batch(step))
        ids, of, types = unmasked(batch)[0], batch["sequence_ids"][0], batch["input_type_ids"][0]
        np.testing.assert_array_equal(batch["input_mask"][0], of > 0)
        assert not (ids[of == 0] != PAD).any() and not types[of == 0].any()
        if label is not None:
            weights = batch[f"{label}_weights"][0]
            assert weights.tolist() == [1] * of.max() + [0] * (len(weights) - of.max())
        for number in range(1, of.max() + 1):
            (at,) = np.nonzero(of == number)
            pair, end_a = ids[at], np.flatnonzero(types[at])[0] - 1
            assert (pair[[0, end_a, -1]] == [CLS, SEP, SEP]).all()
            a, b = pair[1:end_a] - 5, pair[end_a + 1 : -1] - 5
            of_pair = 0
            if label is not None:
                assert batch["first_positions"][0, number - 1] == at[0]
                of_pair = batch[f"{label}_labels"][0, number - 1]
            for part in (a, b):
                np.testing.assert_array_equal(part, np.arange(part[0], part[0] + len(part)))
            found.append((a[0], a[-1] + 1, b[0], b[-1] + 1, of_pair))
    assert sorted(found) == sorted(map(tuple, alone.plan(0)[:, :5].tolist()))


def filled_one_by_one(corpus, space):
    """The windows as FULL-SENTENCES of Liu et al. 2019, section 4.2, says."""
    windows, row = [], []
    starts = set(corpus.document_starts.tolist())
    for s in range(corpus.num_sentences):
        tokens = corpus.tokens[corpus.sentence_starts[s] : corpus.sentence_starts[s + 1]].tolist()
        between = [SEP] if s in starts else []
        for first in range(0, len(tokens), space):
            part = tokens[first : first + space]
            more = [*between, *part] if first == 0 else part
            if row and len(row) + len(more) > space:
                windows.append(row)
                row = []
            row = row + (more if row else part)
    return [*windows, row]


@pytest.mark.parametrize(
    ("sizes", "longest", "block"),
    [((40,) * 10, 40, 1 << 16), ((1,) * 50, 30, 7), ((3, 1, 20), 200, 1), ((1,), 5, 7)],
)
def test_windows_are_filled_sentence_by_sentence_and_masked(sizes, longest, block, monkeypatch):
    monkeypatch.setattr(masked_windows, "_BLOCK", block)
    corpus, tokenizer = make_corpus(sizes, longest=longest)
    windows = MaskedWindows(corpus, tokenizer, batch_size=1, seq_length=64, max_predictions=10)
    wanted = filled_one_by_one(corpus, 62)
    steps = windows.steps_per_epoch
    assert steps == len(wanted)
    found, masks = [], set()
    for step in range(2 * steps):
        batch = as_numpy(windows.batch(step))
        assert set(batch) == {
            "input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions",
            "masked_lm_ids", "masked_lm_weights",
        }  # fmt: skip
        assert {v.shape for v in batch.values()} == {(1, 64), (1, 10)}
        used = batch["masked_lm_weights"] > 0
        assert used.any() and not np.isin(batch["masked_lm_ids"][used], [0, 2, 3]).any()
        assert not batch["input_type_ids"].any()
        masks.add(batch["masked_lm_positions"].tobytes())
        (ids,), size = unmasked(batch), batch["input_mask"].sum()
        assert ids[0] == CLS and ids[size - 1] == SEP and (ids[size:] == PAD).all()
        found.append(ids[1 : size - 1].tolist())
    assert sorted(found[:steps]) == sorted(found[steps:]) == sorted(wanted)
    assert len(masks) > steps  # they are drawn anew in each epoch
