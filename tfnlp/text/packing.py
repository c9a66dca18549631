"""Packing of token ids into an encoder's input: [CLS] A [SEP] B [SEP] and padding.

Texts that are longer than a model reads become overlapping windows. Question answering puts the
question before each window (Devlin et al. 2019, section 4.2; the reference code's `run_squad.py`);
tagging reads windows without another segment.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf


def pack_segments(
    segments: Sequence[tf.RaggedTensor],
    seq_length: int | tf.Tensor,
    cls_id: int,
    sep_id: int | Sequence[int],
    pad_id: int,
    separators: int = 1,
) -> dict[str, tf.Tensor]:
    """Pack segments of ids into `[CLS] A [SEP] B [SEP] ... [PAD]*` of fixed length.

    RoBERTa has two separators between segments, `<s> A </s></s> B </s>`.

    Where the segments of a row are too long together, each is cut to a prefix. The available
    length is given to the segments in turn, one token at a time, so that the prefixes differ by at
    most one except where a segment is shorter:

        kept_i = min(len_i, level) + extra_i,    sum_i kept_i = min(available, sum_i len_i)

    with the highest `level` that fits, and the rest given to the first segments that have more.

    Args:
        segments: one or more int32 ragged tensors `[B, (pieces)]` or `[B, (words), (pieces)]`.
        seq_length: length T of the result, special tokens included.
        cls_id, sep_id, pad_id: ids of [CLS], [SEP] and [PAD]; of sep_id also a list, one for each
            segment.
        separators: how many [SEP] stand between two segments; one ends the last.

    Returns:
        A dict of int32 `[B, T]`: `input_word_ids`; `input_mask`, 1 at tokens and 0 at padding;
        `input_type_ids`, the index of the segment ([CLS] belongs to the first, each [SEP] to the
        segment before it), 0 at padding; all 0 if there are two or more `separators`, which then
        are all that parts segments.

    Raises:
        ValueError: a `seq_length` that is too small for the special tokens.

    The layout and the truncation are those of the published BERT preprocessors
    (`bert_pack_inputs`).
    """
    segments = [merge_words(s) if s.shape.rank == 3 else s for s in segments]
    segments = [tf.cast(s, tf.int32).with_row_splits_dtype(tf.int64) for s in segments]
    special = special_tokens(len(segments), separators)
    static_length = tf.get_static_value(seq_length)
    if static_length is not None and static_length < special:
        raise ValueError(
            f"seq_length={static_length} is too small for {len(segments)} segment(s), which need "
            f"{special} special tokens; pass seq_length >= {special}"
        )
    seq_length = tf.cast(seq_length, tf.int32)
    if static_length is None:
        why = f"seq_length is too small for {len(segments)} segments and {special} special tokens"
        tf.raw_ops.Assert(condition=seq_length >= special, data=[why, seq_length])
    lengths = tf.stack([tf.cast(s.row_lengths(), tf.int32) for s in segments], 1)  # [B, n]
    kept = _fair_lengths(lengths, tf.maximum(seq_length - special, 0))  # [B, n]

    ends = [sep_id] * len(segments) if isinstance(sep_id, int) else sep_id
    begins = tf.cumsum(kept + separators, axis=1, exclusive=True) + 1  # [B, n], after [CLS], [SEP]
    position = tf.range(seq_length)[None, :]  # [1, T]
    mask = position <= begins[:, -1:] + kept[:, -1:]  # [B, T]

    # Places in the concatenation of all ids, [CLS], [PAD] and each [SEP]. What a segment writes
    # after its end is overwritten by what follows.
    ids = tf.concat([*(s.values for s in segments), [cls_id, pad_id, *ends]], 0)
    first_special = tf.size(ids) - 2 - len(segments)
    place = tf.where(position == 0, first_special, 0)  # [1, T]
    before = 0
    for index, segment in enumerate(segments):
        offset = position - begins[:, index, None]  # [B, T]
        starts = before + tf.cast(segment.row_starts()[:, None], tf.int32)
        place = tf.where(offset >= 0, starts + offset, place)
        place = tf.where(offset >= kept[:, index, None], first_special + 2 + index, place)
        before += tf.size(segment.values)
    word_ids = tf.gather(ids, tf.where(mask, place, first_special + 1))  # [B, T]

    # The segment's index is the number of segments that ended before.
    ended = tf.cast(position[:, :, None] >= begins[:, None, 1:], tf.int32)  # [B, T, n - 1]
    types = tf.where(mask, tf.reduce_sum(ended, axis=2), 0)
    packed = dict(
        input_word_ids=word_ids,
        input_mask=tf.cast(mask, tf.int32),
        input_type_ids=types if separators == 1 else tf.zeros_like(types),
    )
    return {name: tf.ensure_shape(ids, [None, static_length]) for name, ids in packed.items()}


def special_tokens(segments: int, separators: int = 1) -> int:
    """Return how many special tokens `pack_segments` adds to so many segments."""
    return 2 + separators * (segments - 1)


def merge_words(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Return `[B, (words), (pieces)]` as `[B, (pieces)]`: `merge_dims(1, 2)` in fewer ops."""
    words = ids.values
    if not isinstance(words, tf.RaggedTensor):  # every word has the same number of pieces
        return ids.merge_dims(1, 2)
    splits = tf.gather(words.row_splits, ids.row_splits)
    return tf.RaggedTensor.from_row_splits(words.values, splits, validate=False)


def _fair_lengths(lengths: tf.Tensor, available: tf.Tensor) -> tf.Tensor:
    """Return the lengths to keep of `[B, n]`, whose sum is at most `available`."""
    count = lengths.shape[1]
    # If the i shortest segments were kept whole, each of the others could have
    # (available - their sum) / (n - i). That is never above the level, and equals it for one i.
    ascending = tf.sort(lengths, axis=1)
    whole = tf.cumsum(ascending, axis=1, exclusive=True)  # [B, n]
    level = tf.reduce_max((available - whole) // tf.range(count, 0, -1), axis=1, keepdims=True)
    kept = tf.minimum(lengths, level)
    rest = available - tf.reduce_sum(kept, axis=1, keepdims=True)  # [B, 1]
    more = tf.cast(lengths > level, tf.int32)
    return kept + tf.where(tf.cumsum(more, axis=1) <= rest, more, 0)


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
        pack: function of a list of segments `[N, (n)]` to a dict of `[N, T]`, which cuts none.
        max_length: longest sequence, special tokens included.
        stride: pieces.
        special: how many special tokens `pack` adds, the first and the last one of them; 0: none.
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

    # Where a window begins in its sequence.
    begin = max(special - 1, 0) + tf.gather(taken, row)
    if first is None:
        begin = tf.zeros_like(begin) + min(special, 1)
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
