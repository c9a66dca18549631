"""Windows over words against the document spans and the "max context" of `run_squad.py`."""

from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf

from tfnlp.text.packing import pack_segments, pack_windows

CLS, SEP, PAD = 1, 2, 0


def spans(size, room, stride):
    """`(start, length)` of the windows of a document, the reference's loop."""
    start, found = 0, []
    while True:
        length = min(size - start, room)
        found.append((start, length))
        if start + length == size:
            return found
        start += min(length, stride)


def best_window(found, place):
    scores = []
    for start, length in found:
        inside = start <= place < start + length
        context = min(place - start, start + length - 1 - place)
        scores.append(context + Fraction(length, 100) if inside else -1)
    return scores.index(max(scores))  # of equals the first


def expected(rows, questions, max_length, stride, head):
    """One dict a window, lists as long as its sequence."""
    special, result, word = 2 if questions is None else 3, [], 0
    for number, words in enumerate(rows):
        question = [] if questions is None else [*questions[number], SEP]
        room = max_length - special - (len(question) - 1 if questions is not None else 0)
        flat = [
            (piece, word + w, p == (0 if head == "first" else len(pieces) - 1))
            for w, pieces in enumerate(words)
            for p, piece in enumerate(pieces)
        ]
        word += len(words)
        found = spans(len(flat), room, stride)
        for index, (start, length) in enumerate(found):
            inside = flat[start : start + length]
            front = 1 + len(question)
            best = [best_window(found, start + i) == index for i in range(length)]
            result.append(
                {
                    "window_row": number,
                    "ids": [CLS, *question, *(piece for piece, _, _ in inside), SEP],
                    "token_word": [-1] * front + [w for _, w, _ in inside] + [-1],
                    "is_head": [False] * front + [h for _, _, h in inside] + [False],
                    "is_best": [False] * front + best + [False],
                }
            )
    return result


def pack_of():
    def pack(segments):
        lengths = sum(tf.cast(s.row_lengths(), "int32") for s in segments) + len(segments) + 1
        return pack_segments(segments, tf.reduce_max(tf.concat([lengths, [4]], 0)), CLS, SEP, PAD)

    return pack


def found_windows(rows, questions, max_length, stride, head):
    pieces = tf.ragged.constant(rows, "int32", ragged_rank=2)
    first = None if questions is None else tf.ragged.constant(questions, "int32", ragged_rank=1)
    special = 2 if questions is None else 3
    return pack_windows(pieces, first, pack_of(), max_length, stride, special, head)


def check(found, want, max_length):
    ids = found["inputs"]["input_word_ids"].numpy()
    mask = found["inputs"]["input_mask"].numpy()
    assert [mask.shape[0], found["window_row"].shape[0]] == [len(want)] * 2
    assert mask.sum(1).max() <= max_length
    np.testing.assert_array_equal(found["window_row"], [w["window_row"] for w in want])
    for n, window in enumerate(want):
        size = len(window["ids"])
        assert ids[n, :size].tolist() == window["ids"] and mask[n].sum() == size
        for name, blank in (("token_word", -1), ("is_head", False), ("is_best", False)):
            column = found[name][n].numpy().tolist()
            assert column[:size] == window[name], name
            assert set(column[size:]) <= {blank}, name


def random_rows(rng, longest=12):
    return [
        [
            rng.integers(3, 99, rng.integers(1, 5)).tolist()
            for _ in range(rng.integers(0, longest) * (rng.random() < 0.8))
        ]
        for _ in range(rng.integers(1, 5))
    ]


@pytest.mark.parametrize("seed", range(10))
def test_windows_are_those_of_the_reference(seed):
    rng = np.random.default_rng(seed)
    rows, head = random_rows(rng), ["first", "last"][seed % 2]
    max_length, stride = int(rng.integers(5, 16)), int(rng.integers(1, 12))
    questions = None
    if seed % 3:
        sizes = rng.integers(0, max_length - 3, len(rows))  # up to all but one piece
        questions = [rng.integers(3, 99, size).tolist() for size in sizes]
    found = found_windows(rows, questions, max_length, stride, head)
    check(found, expected(rows, questions, max_length, stride, head), max_length)

    # Every piece, and every word, has the most context in exactly one window.
    best = found["is_best"].numpy()
    pieces = sum(len(word) for row in rows for word in row)
    assert best.sum() == pieces
    words = found["token_word"].numpy()[best & found["is_head"].numpy()]
    assert sorted(words) == list(range(sum(map(len, rows))))


def test_long_windows_of_which_the_last_is_short():
    # A difference in length of more than 100 pieces outweighs a piece of context.
    rows = [[[3]] * n for n in (500, 384, 385, 700, 0)]
    for stride in (128, 300, 1000):
        found = found_windows(rows, None, 386, stride, "first")
        check(found, expected(rows, None, 386, stride, "first"), 386)


@pytest.mark.parametrize("questions", [None, [[], [5]]])
def test_rows_without_words(questions):
    found = found_windows([[], []], questions, 6, 2, "first")
    check(found, expected([[], []], questions, 6, 2, "first"), 6)
    assert found["is_best"].numpy().sum() == 0
    assert found["window_row"].numpy().tolist() == [0, 1]
