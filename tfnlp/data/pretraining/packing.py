"""Tokens to masked batches in the TensorFlow graph: sentence pairs and windows of sentences."""

from typing import Any

import tensorflow as tf

from tfnlp.data.pretraining.pair_sampling import LABELS
from tfnlp.text.masking import mask_tokens

_SPECIAL = ("pad", "unk", "cls", "sep", "mask")  # never a random replacement


class Masker:
    """A function that masks packed rows with (seed, step).

    Its arguments are those of `SentencePairs`.

    Raises:
        ValueError: an argument out of its range.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        batch_size: int,
        seq_length: int,
        max_predictions: int,
        seed: int,
        mask_rate: float,
        whole_word: bool,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more; got {batch_size}")
        check_rows(seq_length, seed)
        if not 1 <= max_predictions <= seq_length:
            raise ValueError(
                f"max_predictions must lie in [1, seq_length={seq_length}]; got {max_predictions}"
            )
        if not 0 < mask_rate <= 1:
            raise ValueError(f"mask_rate must lie in (0, 1]; got {mask_rate}")
        self.tokenizer = tokenizer
        self.seq_length = seq_length
        self.max_predictions = max_predictions
        self.seed = seed
        self.mask_rate = mask_rate
        self.whole_word = whole_word

    def __call__(
        self, ids: tf.Tensor, is_token: tf.Tensor, is_real: tf.Tensor, step: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return the masked ids, the answers and the mask of real places.

        Args:
            ids: int32 [B, T].
            is_token: bool [B, T], what may be masked.
            is_real: bool [B, T], False for padding.
            step: int64.
        """
        tokenizer = self.tokenizer
        masked = mask_tokens(
            ids,
            is_token,
            tf.stack([self.seed, tf.cast(step, tf.int32)]),
            mask_id=tokenizer.mask_id,
            vocab_size=tokenizer.vocab_size,
            random_floor=[getattr(tokenizer, f"{name}_id") for name in _SPECIAL],
            max_predictions=self.max_predictions,
            rate=self.mask_rate,
            is_continuation=tokenizer.is_continuation if self.whole_word else None,
        )
        return {**masked, "input_mask": tf.cast(is_real, tf.int32)}


class PairPacker:
    """A function that packs pairs as `[CLS] A [SEP] B [SEP]` and masks them with (seed, step).

    Args:
        tokenizer: see `SentencePairs`.
        second: see `SentencePairs`; decides the name of the labels.
        arguments: of `Masker`.

    Raises:
        ValueError: an argument out of its range, or a tokenizer that separates segments otherwise.
    """

    def __init__(self, tokenizer: Any, second: str = "random", **arguments: Any) -> None:
        if getattr(tokenizer, "separators", 1) != 1:
            raise ValueError(
                "tokenizer puts several tokens between two segments; use windows of sentences "
                "(MaskedWindows)"
            )
        self.tokenizer, self.label = tokenizer, LABELS[second]
        self.mask = Masker(tokenizer, **arguments)

    def __call__(self, tokens: tf.Tensor, rows: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the batch.

        Args:
            tokens: int32 [N], of which A and B are ranges.
            rows: int64 [B, 6], as in `SentencePairs.plan`.
            step: int64.
        """
        a_start, a_end, b_start, b_end, label, _ = tf.split(rows, 6, axis=1)  # [B, 1] each
        place = tf.range(self.mask.seq_length, dtype=tf.int64)[tf.newaxis]  # [1, T]
        first_sep = 1 + a_end - a_start
        last_sep = 1 + first_sep + b_end - b_start
        in_a = (place >= 1) & (place < first_sep)  # [B, T]
        in_b = (place > first_sep) & (place < last_sep)
        is_token = in_a | in_b
        shift = tf.where(in_a, a_start - 1, b_start - first_sep - 1)
        ids = _placed(self.tokenizer, tokens, is_token, place + shift, place, last_sep)
        batch = {
            **self.mask(ids, is_token, place <= last_sep, step),
            "input_type_ids": tf.cast((place > first_sep) & (place <= last_sep), tf.int32),
        }
        if self.label is not None:
            batch[self.label] = tf.cast(label[:, 0], tf.int32)
        return batch


class WindowPacker:
    """A function that packs windows as `[CLS] tokens [SEP]` and masks them with (seed, step).

    Separators within a window, which are at the ends of documents, are not masked.

    Args:
        tokenizer: see `MaskedWindows`.
        arguments: of `Masker`.

    Raises:
        ValueError: an argument out of its range.
    """

    def __init__(self, tokenizer: Any, **arguments: Any) -> None:
        self.tokenizer, self.mask = tokenizer, Masker(tokenizer, **arguments)

    def __call__(
        self, tokens: tf.Tensor, lengths: tf.Tensor, step: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Return the batch.

        Args:
            tokens: int32 [N], those of all windows, one after the other.
            lengths: int64 [B], of the windows, without [CLS] and the last [SEP].
            step: int64.
        """
        place = tf.range(self.mask.seq_length, dtype=tf.int64)[tf.newaxis]  # [1, T]
        starts = tf.cumsum(lengths, exclusive=True)[:, tf.newaxis]  # [B, 1]
        last_sep = 1 + lengths[:, tf.newaxis]
        inside = (place >= 1) & (place < last_sep)  # [B, T]
        ids = _placed(self.tokenizer, tokens, inside, starts + place - 1, place, last_sep)
        is_token = inside & (ids != self.tokenizer.sep_id)
        masked = self.mask(ids, is_token, place <= last_sep, step)
        return {**masked, "input_type_ids": tf.zeros_like(ids)}


def _placed(
    tokenizer: Any,
    tokens: tf.Tensor,
    is_token: tf.Tensor,
    position: tf.Tensor,
    place: tf.Tensor,
    last: tf.Tensor,
) -> tf.Tensor:
    """Return rows int32 [B, T] of `tokens[position]` where `is_token`, else special tokens.

    These are [CLS] at place 0, padding after the place `last` and [SEP] elsewhere.
    """
    position = tf.where(is_token, position, 0)  # any valid one where there is no token
    special = tf.where(place > last, tokenizer.pad_id, tokenizer.sep_id)
    special = tf.where(place == 0, tokenizer.cls_id, special)
    return tf.where(is_token, tf.gather(tokens, position), special)


def masked_positions(seq_length: int) -> int:
    """Return the number of masked positions of a sequence: 15 % of its length, rounded up.

    It is 20 for 128 tokens and 77 for 512, as in the reference code of BERT.
    """
    return max(1, -(-seq_length * 15 // 100))


def check_rows(seq_length: int, seed: int) -> None:
    """Raise a ValueError if no rows can be drawn with these arguments."""
    if seq_length < 8:
        raise ValueError(f"seq_length must be 8 or more, to hold two sentences; got {seq_length}")
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must lie in [0, 2^31); got {seed}")
