"""Sentence pairs to masked batches, `[CLS] A [SEP] B [SEP]`, in the TensorFlow graph."""

from typing import Any

import tensorflow as tf

from tfnlp.text.masking import mask_tokens

_SPECIAL = ("pad", "unk", "cls", "sep", "mask")  # never a random replacement


class PairPacker:
    """A function that packs the pairs of a batch and masks them with (seed, step).

    Its arguments are those of `BertPairs`.

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
        check_pairs(seq_length, seed)
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

    def __call__(self, tokens: tf.Tensor, rows: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the batch.

        Args:
            tokens: int32 [N], of which A and B are ranges.
            rows: int64 [B, 6], as in `BertPairs.plan`.
            step: int64.
        """
        a_start, a_end, b_start, b_end, is_random, _ = tf.split(rows, 6, axis=1)  # [B, 1] each
        place = tf.range(self.seq_length, dtype=tf.int64)[tf.newaxis]  # [1, T]
        first_sep = 1 + a_end - a_start
        last_sep = 1 + first_sep + b_end - b_start
        in_a = (place >= 1) & (place < first_sep)  # [B, T]
        in_b = (place > first_sep) & (place < last_sep)
        is_token = in_a | in_b
        shift = tf.where(in_a, a_start - 1, b_start - first_sep - 1)
        # Any valid position, where there is no token.
        position = tf.where(is_token, place + shift, 0)  # [B, T]
        tokenizer = self.tokenizer
        special = tf.where(place > last_sep, tokenizer.pad_id, tokenizer.sep_id)
        special = tf.where(place == 0, tokenizer.cls_id, special)
        ids = tf.where(is_token, tf.gather(tokens, position), special)
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
        return {
            **masked,
            "input_mask": tf.cast(place <= last_sep, tf.int32),
            "input_type_ids": tf.cast((place > first_sep) & (place <= last_sep), tf.int32),
            "next_sentence_labels": tf.cast(is_random[:, 0], tf.int32),
        }


def masked_positions(seq_length: int) -> int:
    """Return the number of masked positions of a sequence: 15 % of its length, rounded up.

    It is 20 for 128 tokens and 77 for 512, as in the reference code of BERT.
    """
    return max(1, -(-seq_length * 15 // 100))


def check_pairs(seq_length: int, seed: int) -> None:
    """Raise a ValueError if no pairs can be drawn with these arguments."""
    if seq_length < 8:
        raise ValueError(f"seq_length must be 8 or more, to hold two sentences; got {seq_length}")
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed must lie in [0, 2^31); got {seed}")
