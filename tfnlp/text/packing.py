"""Packing of token ids into an encoder's input: [CLS] A [SEP] B [SEP] and padding."""

from collections.abc import Sequence
from typing import Any

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


def packing_ids(tokenizer: Any) -> dict[str, tf.Tensor]:
    """Return a tokenizer's size and special ids, named as in the published preprocessors."""
    return dict(
        vocab_size=tf.constant(tokenizer.vocab_size),
        padding_id=tf.constant(tokenizer.pad_id),
        start_of_sequence_id=tf.constant(tokenizer.cls_id),
        end_of_segment_id=tf.constant(tokenizer.sep_id),
        mask_id=tf.constant(tokenizer.mask_id),
    )


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
