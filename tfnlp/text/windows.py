"""Overlapping windows of words, for texts that are longer than a model reads.

Question answering puts the question before each window (Devlin et al. 2019, section 4.2; the
reference code's `run_squad.py`); tagging reads windows without another segment.
"""

from collections.abc import Callable

import tensorflow as tf


def pack_windows(
    pieces: tf.RaggedTensor,
    first: tf.RaggedTensor | None,
    pack: Callable[[list[tf.RaggedTensor]], dict[str, tf.Tensor]],
    max_length: int,
    stride: int,
    special: int,
    head: str = "first",
) -> dict[str, tf.Tensor]:
    """Pack the pieces of words in windows of `max_length`, `stride` pieces from one to the next.

    Window k of a row begins at piece `k stride`, for every k up to the first that reaches the end.
    A piece in several windows has the most context in the one where
    `min(pieces before, pieces after) + 0.01 (pieces of the window)` is largest, of equals the
    first (`run_squad.py`).

    Args:
        pieces: ids int32 `[B, (W), (P)]`, one piece or more for each word.
        first: ids int32 `[B, (Q)]` of a segment that precedes every window of the row, or None.
        pack: function of a list of segments, int32 ragged `[N, (n)]`, that returns a dict of
            `[N, T]`; it must not cut segments.
        max_length: longest sequence, special tokens included.
        stride: pieces.
        special: how many special tokens `pack` adds to a sequence, one of them at its start and one
            at its end.
        head: which piece stands for its word, "first" or "last".

    Returns:
        dict of
            inputs: what `pack` returns for the N windows;
            window_row: int32 `[N]`, the row in 0..B-1 that a window is of;
            token_word: int32 `[N, T]`, number of the word among all words of the batch, -1 at
                special tokens, `first` and padding;
            is_head: bool `[N, T]`, at the pieces that stand for their words;
            is_best: bool `[N, T]`, at pieces that have the most context in this window.
    """
    flat, rows = pieces.flat_values, pieces.nrows()  # [M]
    word_of = tf.cast(pieces.values.value_rowids(), tf.int32)  # [M]
    splits = tf.gather(pieces.values.row_splits, pieces.row_splits)  # [B + 1]: pieces of a row
    begins, sizes = splits[:-1], splits[1:] - splits[:-1]
    taken = tf.zeros([rows], tf.int64) if first is None else tf.cast(first.row_lengths(), tf.int64)
    size = tf.maximum(max_length - special - taken, 1)  # [B], pieces of a window
    step = tf.minimum(tf.cast(stride, tf.int64), size)
    over = tf.maximum(sizes - size, 0)
    counts = 1 + -(-over // step)  # [B], windows

    row = tf.repeat(tf.range(rows), counts)  # [N]
    offsets = tf.ragged.range(counts).flat_values * tf.gather(step, row)  # [N]
    lengths = tf.minimum(tf.gather(sizes, row) - offsets, tf.gather(size, row))
    starts = tf.gather(begins, row) + offsets
    places = tf.ragged.range(starts, starts + lengths)  # [N, (n)] of [M]
    windows = places.with_values(tf.gather(flat, places.values))
    parts = [windows] if first is None else [tf.gather(first, row), windows]
    inputs = pack(parts)

    begin = special - 1 + tf.gather(taken, row)  # where a window begins in its sequence
    if first is None:
        begin = tf.ones_like(begin)
    length = tf.shape(inputs["input_mask"], tf.int64)[-1]
    at = tf.range(length)[None] - begin[:, None]  # [N, T], place within the window
    real = (at >= 0) & (at < lengths[:, None])
    place = tf.where(real, at + starts[:, None], 0)  # [N, T] of [M]
    # With one more entry, place 0 is valid even where there are no words.
    padded_words = tf.concat([word_of, [-1]], 0)
    token_word = tf.where(real, tf.gather(padded_words, place), -1)

    limits = pieces.values.row_splits  # where words begin and end
    heads = limits[:-1] if head == "first" else limits[1:] - 1  # [W]
    is_head = tf.scatter_nd(heads[:, None], tf.ones_like(heads), [tf.size(flat, tf.int64) + 1]) > 0
    context = tf.minimum(at, lengths[:, None] - 1 - at)
    context = 100 * context + lengths[:, None]  # exact, unlike 0.01
    best = _first_of_the_largest(context, place, real, tf.size(flat, tf.int64))
    return {
        "inputs": inputs,
        "window_row": tf.cast(row, tf.int32),
        "token_word": token_word,
        "is_head": tf.gather(is_head, place) & real,
        "is_best": best,
    }


def _first_of_the_largest(
    context: tf.Tensor, place: tf.Tensor, real: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
    """Return where no other window has the piece with more context, or earlier with as much."""
    numbers = tf.range(tf.shape(place, tf.int64)[0])[:, None] + tf.zeros_like(place)  # [N, T]
    segments = tf.where(real, place, -1)  # negative ones are dropped
    most = tf.math.unsorted_segment_max(context, segments, count + 1)
    largest = real & (context >= tf.gather(most, place))
    chosen = tf.math.unsorted_segment_min(numbers, tf.where(largest, place, -1), count + 1)
    return largest & (numbers == tf.gather(chosen, place))
