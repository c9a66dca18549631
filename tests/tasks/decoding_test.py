"""Spans, answers and tags from logits, against a search among all of them."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.text.windows_test import found_windows, random_rows
from tfnlp.layers import CRF
from tfnlp.tasks.spans import answers, best_spans, span_candidates
from tfnlp.tasks.tag_decoding import best_tags, bio_transitions, word_logits

KEPT = 20


def windows_of(rng, questions=True):
    rows = random_rows(rng, 8)
    texts = [rng.integers(3, 99, rng.integers(0, 4)).tolist() for _ in rows]
    found = found_windows(rows, texts if questions else None, 9, 3, "first")
    length = found["token_word"].shape[1]
    # The null answer's place is arbitrary; in GPT it is the last token.
    found["null_positions"] = tf.constant(
        rng.integers(0, length, len(found["window_row"])), "int32"
    )
    return rows, found


def all_spans(start, end, found, max_answer):
    """For each window a list of `(score, first word, last word)`."""
    result = []
    for n, words in enumerate(found["token_word"].numpy().tolist()):
        spans = []
        for i, j in itertools.product(range(len(words)), repeat=2):
            if not i <= j < i + max_answer or words[i] < 0 or words[j] < 0:
                continue
            begins = i == 0 or words[i - 1] != words[i]
            finishes = j == len(words) - 1 or words[j + 1] != words[j]
            if begins and finishes and found["is_best"].numpy()[n, i]:
                spans.append((start[n, i] + end[n, j], words[i], words[j]))
        result.append(sorted(spans, reverse=True))
    return result


def assert_spans(scores, starts, ends, want):
    real = scores > -1e8
    assert real.sum() == min(len(want), KEPT)
    got = list(zip(scores[real], starts[real], ends[real], strict=True))
    assert got == want[:KEPT]


@pytest.mark.parametrize("seed", range(4))
def test_spans_are_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    rows, found = windows_of(rng)
    max_answer = int(rng.integers(1, 12))
    start, end = rng.normal(size=(2, *found["token_word"].shape)).astype(np.float32)
    got = span_candidates(tf.constant(start), tf.constant(end), found, max_answer)
    want = all_spans(start, end, found, max_answer)
    for n, spans in enumerate(want):
        assert_spans(*(got[name].numpy()[n] for name in ("scores", "starts", "ends")), spans)
        null = found["null_positions"].numpy()[n]
        assert got["null"].numpy()[n] == start[n, null] + end[n, null]

    window_row = found["window_row"].numpy()
    best = best_spans(got, found["window_row"], len(rows))
    for row in range(len(rows)):
        spans = sorted(
            (s for n in np.flatnonzero(window_row == row) for s in want[n]), reverse=True
        )
        assert_spans(*(best[name].numpy()[row] for name in ("scores", "starts", "ends")), spans)
        assert best["null"].numpy()[row] == got["null"].numpy()[window_row == row].min()


CONTEXT = "né à 北京"
PLACES = [(0, 3), (4, 6), (7, 10), (10, 13)]  # in bytes


def answer(scores, starts, ends, null, **arguments):
    """The answers about CONTEXT and about an empty text."""
    pad = KEPT - len(scores)
    spans = {
        "scores": tf.constant([scores + [-2e9] * pad, [-2e9] * KEPT]),
        "starts": tf.constant([starts + [-1] * pad, [-1] * KEPT]),
        "ends": tf.constant([ends + [-1] * pad, [-1] * KEPT]),
        "null": tf.constant([null, 0.5]),
    }
    places = tf.constant(PLACES, "int64")
    found = answers(spans, tf.constant([CONTEXT, ""]), places[:, 0], places[:, 1], **arguments)
    return {name: x.numpy() for name, x in found.items()}


def test_answers_are_cut_out_of_the_context():
    got = answer([2.0, 1.0, 0.5], [2, 0, 1], [3, 1, 1], 9.0)
    odds = np.exp([2.0, 1.0, 0.5])
    texts = [text.decode() for text in got["answers"][0]]
    assert texts == ["北京", "né à", "à"] + [""] * (KEPT - 3)
    np.testing.assert_allclose(got["scores"][0, :3], odds / odds.sum(), rtol=1e-6)
    assert not got["scores"][0, 3:].any()
    assert (got["answer"][0].decode(), got["start"][0], got["end"][0]) == ("北京", 7, 13)
    assert got["score"][0] == got["scores"][0, 0] and got["null_score"][0] == 7.0
    # A text without words has no answer, with score 0.
    assert (got["answer"][1], got["start"][1], got["end"][1], got["score"][1]) == (b"", 0, 0, 0)
    assert not got["scores"][1].any() and set(got["answers"][1]) == {b""}


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 3.0])
@pytest.mark.parametrize("null", [1.5, 4.0, 6.0])
def test_no_answer_beyond_the_threshold(null, threshold):
    got = answer([2.0, 1.0], [0, 1], [0, 1], null, unanswerable=True, threshold=threshold)
    odds = np.exp([2.0, 1.0, null])
    odds /= odds.sum()
    none = null - 2.0 > threshold
    assert got["answer"][0].decode() == ("" if none else "né")
    np.testing.assert_allclose(got["score"][0], odds[2 if none else 0], rtol=1e-6)
    np.testing.assert_allclose(got["scores"][0, :2], odds[:2], rtol=1e-6)
    assert (got["start"][0], got["end"][0]) == ((0, 0) if none else (0, 3))
    assert got["answers"][0, 0].decode() == "né"  # the best answer that is not empty
    assert got["answer"][1] == b"" and got["score"][1] == 1.0


BIO = ("O", "B-A", "I-A", "B-B", "I-B")


def allowed(path, labels):
    for before, tag in zip(("O", *path), path, strict=False):
        if tag.startswith("I-") and before not in (f"B-{tag[2:]}", f"I-{tag[2:]}"):
            return False
    return bool(labels)


@pytest.mark.parametrize(
    "labels", [BIO, ("B-A", "I-A", "O"), ("I-B", "B-B", "B-A", "I-A"), ("B-A", "O")]
)
def test_tags_are_the_best_of_all_allowed(labels):
    rng = np.random.default_rng(len(labels))
    lengths, width = [5, 0, 1, 4, 2, 3, 5], 5
    logits = rng.normal(0, 2, (len(lengths), width, len(labels))).astype(np.float32)
    tags, odds = (x.numpy() for x in best_tags(tf.constant(logits), tf.constant(lengths), labels))
    assert tags.shape == odds.shape == (len(lengths), width)
    changed = 0
    for row, length in enumerate(lengths):
        scores = logits[row] - np.log(np.exp(logits[row]).sum(-1, keepdims=True))
        best, path = -np.inf, ()
        for candidate in itertools.product(range(len(labels)), repeat=length):
            total = sum(scores[t, tag] for t, tag in enumerate(candidate))
            if total > best and allowed([labels[tag] for tag in candidate], labels):
                best, path = total, candidate
        assert tags[row, :length].tolist() == list(path)
        want = [np.exp(scores[t, tag]) for t, tag in enumerate(path)]
        np.testing.assert_allclose(odds[row, :length], want, rtol=1e-5)
        changed += list(path) != logits[row, :length].argmax(-1).tolist()
    assert changed or not any(label.startswith("I-") for label in labels)


@pytest.mark.parametrize("labels", [BIO, ("N", "V", "D")])
def test_tags_of_a_crf_are_the_best_of_all_allowed(labels):
    """And their probabilities the share of allowed sequences that have them."""
    rng = np.random.default_rng(len(labels))
    crf = CRF(len(labels))
    crf.build((None, None, len(labels)))
    crf.set_weights([rng.normal(size=w.shape) for w in crf.weights])
    transitions, start, end = (x.numpy().astype("float64") for x in crf.scores())
    lengths = [4, 0, 1, 3]
    logits = rng.normal(size=(4, 4, len(labels))).astype(np.float32)
    given = (tf.constant(logits), tf.constant(lengths), labels, crf)
    tags, odds = (x.numpy() for x in best_tags(*given))
    for row, length in enumerate(lengths):
        found = {}
        for path in itertools.product(range(len(labels)), repeat=length):
            if length and allowed([labels[tag] for tag in path], labels):
                total = sum(logits[row, t, tag] for t, tag in enumerate(path))
                total += sum(transitions[a, b] for a, b in itertools.pairwise(path))
                found[path] = total + start[path[0]] + end[path[-1]]
        best = max(found, key=found.get, default=())
        assert tags[row, :length].tolist() == list(best)
        all_of_them = sum(np.exp(list(found.values())))
        for t, tag in enumerate(best):
            share = sum(np.exp(s) for path, s in found.items() if path[t] == tag) / all_of_them
            np.testing.assert_allclose(odds[row, t], share, rtol=1e-4)


@pytest.mark.parametrize(
    "labels", [("N", "V", "D"), ("O", "B-A", "x"), ("O", "I-A", "B-B", "I-B"), ("I-A", "I-B")]
)
def test_other_tags_may_follow_each_other(labels):
    every, begins = bio_transitions(labels)
    assert every.all() and begins.all()
    logits = np.random.default_rng(0).normal(size=(3, 4, len(labels))).astype(np.float32)
    tags, _ = best_tags(tf.constant(logits), tf.constant([4, 2, 0]), labels)
    np.testing.assert_array_equal(tags, logits.argmax(-1))


@pytest.mark.parametrize("head", ["first", "last"])
def test_word_logits_are_those_of_heads_with_most_context(head):
    rng = np.random.default_rng(3)
    rows = random_rows(rng, 9)
    found = found_windows(rows, None, 7, 2, head)
    logits = rng.normal(size=(*found["token_word"].shape, 3)).astype(np.float32)
    count = sum(map(len, rows))
    got = word_logits(tf.constant(logits), found, count).numpy()
    chosen = found["is_head"].numpy() & found["is_best"].numpy()
    assert count > 5 and got.shape == (count, 3)
    for word in range(count):
        (place,) = np.argwhere(chosen & (found["token_word"].numpy() == word))
        np.testing.assert_array_equal(got[word], logits[tuple(place)])
