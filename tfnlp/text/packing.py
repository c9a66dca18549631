"""Packing of token ids into BERT's input: [CLS] A [SEP] B [SEP] and padding."""

from collections.abc import Sequence

import tensorflow as tf


def pack_segments(
    segments: Sequence[tf.RaggedTensor],
    seq_length: int | tf.Tensor,
    cls_id: int,
    sep_id: int | Sequence[int],
    pad_id: int,
) -> dict[str, tf.Tensor]:
    """Packs segments of ids into `[CLS] A [SEP] B [SEP] ... [PAD]*` of fixed length.

    Where the segments of a row do not fit together, each is cut to a prefix.  The room is given
    out one token at a time to each segment in turn, so that the prefixes differ by at most one
    except where a segment is shorter:

        kept_i = min(len_i, level) + extra_i,    sum_i kept_i = min(room, sum_i len_i)

    with the highest `level` that fits, and the rest given to the first segments that have more.

    Args:
      segments: one or more int32 ragged tensors `[B, (pieces)]` or `[B, (words), (pieces)]`.
      seq_length: length T of the result, special tokens included.
      cls_id, sep_id, pad_id: ids of [CLS], [SEP] and [PAD]; of sep_id also a list, one for each
        segment.

    Returns:
      A dict of int32 `[B, T]`: `input_word_ids`; `input_mask`, 1 at tokens and 0 at padding;
      `input_type_ids`, the index of the segment ([CLS] counts to the first, each [SEP] to the
      segment before it), 0 at padding.

    Raises:
      ValueError: no segments, a segment that is not ragged, or a `seq_length` without room for
        the special tokens.

    The layout and the truncation are those of the published BERT preprocessors
    (`bert_pack_inputs`).
    """
    segments = [_merge_words(segment, index) for index, segment in enumerate(segments)]
    if not segments:
        raise ValueError("segments is empty; pass at least one ragged tensor of ids")
    special = len(segments) + 1
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
    begins = tf.cumsum(kept + 1, axis=1, exclusive=True) + 1  # [B, n], just behind [CLS] or [SEP]
    position = tf.range(seq_length)[None, :]  # [1, T]
    mask = position <= begins[:, -1:] + kept[:, -1:]  # [B, T]

    # Places in all ids, one after the other, behind which stand [CLS], [PAD] and each [SEP]. What
    # a segment writes behind its end is written over by what follows.
    ids = tf.concat([*(s.values for s in segments), [cls_id, pad_id, *ends]], 0)
    first_special = tf.size(ids) - 2 - len(segments)
    place = tf.where(position == 0, first_special, 0)  # [1, T]
    before = 0
    for index, segment in enumerate(segments):
        offset = position - begins[:, index, None]  # [B, T]
        starts = before + tf.cast(segment.row_starts()[:, None], tf.int32)
        place = tf.where(offset >= 0, starts + offset, place)
        place = tf.where(offset == kept[:, index, None], first_special + 2 + index, place)
        before += tf.size(segment.values)
    word_ids = tf.gather(ids, tf.where(mask, place, first_special + 1))  # [B, T]

    # The segment's index is the number of segments that ended before.
    behind = tf.cast(position[:, :, None] >= begins[:, None, 1:], tf.int32)  # [B, T, n - 1]
    packed = dict(
        input_word_ids=word_ids,
        input_mask=tf.cast(mask, tf.int32),
        input_type_ids=tf.where(mask, tf.reduce_sum(behind, axis=2), 0),
    )
    return {name: tf.ensure_shape(ids, [None, static_length]) for name, ids in packed.items()}


def _merge_words(segment: tf.RaggedTensor, index: int) -> tf.RaggedTensor:
    rank = segment.shape.rank if isinstance(segment, tf.RaggedTensor) else None
    if rank not in (2, 3):
        raise ValueError(
            f"segments[{index}] must be a ragged tensor [B, (pieces)] or [B, (words), (pieces)], "
            f"but is {segment!r}"
        )
    merged = merge_words(segment) if rank == 3 else segment
    return tf.cast(merged, tf.int32).with_row_splits_dtype(tf.int64)


def merge_words(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """`[B, (words), (pieces)]` to `[B, (pieces)]`: `merge_dims(1, 2)` in fewer operations."""
    words = ids.values
    if not isinstance(words, tf.RaggedTensor):  # as many pieces in every word
        return ids.merge_dims(1, 2)
    splits = tf.gather(words.row_splits, ids.row_splits)
    return tf.RaggedTensor.from_row_splits(words.values, splits, validate=False)


def join_rows(strings: tf.RaggedTensor | tf.Tensor) -> tf.Tensor:
    """Strings `[B, (pieces)]` or `[B, T]` to `[B]`, each row's end to end."""
    if not isinstance(strings, tf.RaggedTensor):
        return tf.strings.reduce_join(strings, axis=1)
    # What `reduce_join` does with ragged tensors, in a third of its operations.
    splits = strings.row_splits
    begins = tf.scatter_nd(
        tf.expand_dims(splits, 1), tf.ones_like(splits), [tf.size(strings.values, splits.dtype) + 1]
    )
    rows = tf.cumsum(begins)[:-1] - 1  # [N], how many rows began before
    return tf.strings.unsorted_segment_join(strings.values, rows, strings.nrows())


def _fair_lengths(lengths: tf.Tensor, room: tf.Tensor) -> tf.Tensor:
    """Lengths `[B, n]` to the kept lengths `[B, n]`, at most `room` in sum."""
    count = lengths.shape[1]
    # If the i shortest segments were kept whole, the others could have (room - their sum) / (n - i)
    # each.  That never exceeds the true level, and equals it for the right i.
    ascending = tf.sort(lengths, axis=1)
    whole = tf.cumsum(ascending, axis=1, exclusive=True)  # [B, n]
    level = tf.reduce_max((room - whole) // tf.range(count, 0, -1), axis=1, keepdims=True)  # [B, 1]
    kept = tf.minimum(lengths, level)
    rest = room - tf.reduce_sum(kept, axis=1, keepdims=True)  # [B, 1]
    more = tf.cast(lengths > level, tf.int32)
    return kept + tf.where(tf.cumsum(more, axis=1) <= rest, more, 0)
