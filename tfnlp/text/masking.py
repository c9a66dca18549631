"""Dynamic masking for masked-language-model pretraining, in dense ops."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

MASK_SHARE, RANDOM_SHARE = 0.8, 0.1  # the remaining tenth stays unchanged


def mask_tokens(
    input_word_ids: tf.Tensor,
    maskable: tf.Tensor,
    seed: tf.Tensor,
    *,
    mask_id: int,
    vocab_size: int,
    random_floor: int | Sequence[int],
    max_predictions: int,
    rate: float = 0.15,
    is_continuation: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Choose tokens to predict and hide them; a pure function of its inputs and the seed.

    (XLA orders random bits in another way, so compiled code chooses other tokens.)

    In a row of M maskable tokens, min(max_predictions, max(1, round(rate * M))) are chosen
    uniformly (none if M = 0; round is Python's, half to even). Of the chosen, 80 % become
    `mask_id`, 10 % a random token and 10 % stay (BERT, section 3.1; `create_masked_lm_predictions`
    of google-research/bert).

    With `is_continuation`, whole words are chosen: a continuation piece belongs to the word of
    the token before it if that one is maskable. Words are taken in random order, each with all
    its pieces; one that would exceed the number of predictions is skipped, so that fewer tokens
    may be chosen but no further word would fit. The 80/10/10 draw is made for each token.

    All ops are dense and stateless with fixed shapes: they compile under XLA.

    Args:
        input_word_ids: int32 `[B, T]`, T static.
        maskable: bool `[B, T]`, False for padding and special tokens; those are never chosen.
        seed: int32 `[2]`.
        mask_id: id of [MASK].
        vocab_size: random tokens are below it.
        random_floor: lowest id of a random token; or the ids that are never drawn (special tokens).
        max_predictions: P, the number of slots per row.
        rate: share of the maskable tokens to choose.
        is_continuation: bool `[vocab_size]`, True for `##` pieces, for whole-word masking.

    Returns:
        `input_word_ids` int32 `[B, T]`, with the chosen tokens hidden; `masked_lm_positions` int32
        `[B, P]`, ascending; `masked_lm_ids` int32 `[B, P]`, the original tokens there;
        `masked_lm_weights` float32 `[B, P]`, 1 for used slots. Unused slots come last, all zero.

    Raises:
        ValueError: a rate out of its range.
    """
    ids = tf.convert_to_tensor(input_word_ids, tf.int32)
    maskable = tf.convert_to_tensor(maskable, tf.bool)
    if not 0 < rate <= 1:
        raise ValueError(f"rate must lie in (0, 1]; got {rate}")
    length = ids.shape[1]
    slots = min(max_predictions, length)
    order_seed, draw_seed, token_seed = tf.unstack(
        tf.random.experimental.stateless_split(seed, 3, alg="philox")
    )

    # By table, since float32 rounds products such as 0.15 * 10 differently from Python.
    table = [0] + [min(slots, max(1, round(n * rate))) for n in range(1, length + 1)]
    chosen = tf.gather(tf.constant(table), tf.reduce_sum(tf.cast(maskable, tf.int32), 1))  # [B]
    scores = _uniform(tf.shape(ids), order_seed)  # [B, T]
    if is_continuation is None:
        positions = _choose_tokens(scores, maskable, chosen, slots)
    else:
        continues = tf.gather(is_continuation, ids)  # [B, T]
        positions = _choose_words(scores, maskable, continues, chosen, slots)
    positions = tf.pad(positions, [[0, 0], [0, max_predictions - slots]], constant_values=length)

    used = positions < length  # [B, P]
    positions = tf.where(used, positions, 0)
    originals = tf.where(used, tf.gather(ids, positions, batch_dims=1), 0)
    shape = tf.shape(positions)
    draw = _uniform(shape, draw_seed)
    tokens = _random_tokens(shape, token_seed, vocab_size, random_floor)
    hidden = tf.where(draw < MASK_SHARE + RANDOM_SHARE, tokens, originals)
    hidden = tf.where(draw < MASK_SHARE, mask_id, hidden)
    # Added rather than assigned: unused slots all point to position 0, where they add nothing.
    change = tf.where(used, hidden - originals, 0)
    rows = tf.broadcast_to(tf.range(shape[0])[:, None], shape)
    hidden_ids = ids + tf.scatter_nd(tf.stack([rows, positions], 2), change, tf.shape(ids))
    return dict(
        input_word_ids=tf.ensure_shape(hidden_ids, ids.shape),
        masked_lm_positions=positions,
        masked_lm_ids=originals,
        masked_lm_weights=tf.cast(used, tf.float32),
    )


def _choose_tokens(
    scores: tf.Tensor, maskable: tf.Tensor, chosen: tf.Tensor, slots: int
) -> tf.Tensor:
    """Return the positions `[B, P]` of the `chosen` best scores, ascending; T in unused slots."""
    length = scores.shape[1]
    _, order = tf.math.top_k(tf.where(maskable, scores, -1.0), slots)  # [B, P]
    return tf.sort(tf.where(tf.range(slots) < chosen[:, None], order, length), axis=1)


def _choose_words(
    scores: tf.Tensor, maskable: tf.Tensor, continues: tf.Tensor, chosen: tf.Tensor, slots: int
) -> tf.Tensor:
    """Do the same as `_choose_tokens` for whole words in the order of their scores."""
    rows, length = tf.shape(scores)[0], scores.shape[1]
    previous = tf.pad(maskable[:, :-1], [[0, 0], [1, 0]])
    starts = maskable & ~(continues & previous)  # [B, T]
    word = tf.maximum(tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1, 0)  # [B, T], its index
    flat_word = tf.reshape(word + tf.range(rows)[:, None] * length, [-1])  # [B * T]
    pieces = tf.reshape(tf.cast(maskable, tf.int32), [-1])
    sizes = tf.math.unsorted_segment_sum(pieces, flat_word, rows * length)
    sizes = tf.reshape(sizes, [rows, length])  # [B, T], 0 after the last word

    _, order = tf.math.top_k(tf.where(sizes > 0, scores, -1.0), length)  # [B, T] words
    sizes = tf.gather(sizes, order, batch_dims=1)

    # Each round takes words in order until one exceeds the tokens left. That one, and every word
    # larger than the number left then, can never fit again, so the next round leaves them out. The
    # result is that of one word at a time, in two or three rounds.
    def candidates(taken: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
        return ~taken & (sizes > 0) & (sizes <= left)

    def take(taken: tf.Tensor, left: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        fitting = candidates(taken, left)
        total = tf.cumsum(tf.where(fitting, sizes, 0), axis=1)  # [B, T]
        now = fitting & (total <= left)
        return taken | now, left - tf.reduce_max(tf.where(now, total, 0), axis=1, keepdims=True)

    taken, _ = tf.while_loop(
        lambda taken, left: tf.reduce_any(candidates(taken, left)),
        take,
        [tf.zeros_like(maskable), chosen[:, None]],
    )
    # From the random order back to words, and from words to their pieces.
    flat_order = tf.reshape(order + tf.range(rows)[:, None] * length, [-1, 1])
    taken = tf.scatter_nd(
        flat_order, tf.cast(tf.reshape(taken, [-1]), tf.int32), tf.shape(flat_order)[:1]
    )
    selected = maskable & (tf.reshape(tf.gather(taken, flat_word), [rows, length]) > 0)
    descending = tf.where(selected, length - tf.range(length), 0)  # [B, T]
    return length - tf.math.top_k(descending, slots).values  # [B, P]


def _uniform(shape: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    # The algorithm is named because the default one depends on the device.
    return tf.random.stateless_uniform(shape, seed, alg="philox")


def _random_tokens(
    shape: tf.Tensor, seed: tf.Tensor, vocab_size: int, random_floor: int | Sequence[int]
) -> tf.Tensor:
    if np.ndim(random_floor) == 0:
        allowed = np.arange(int(random_floor), vocab_size)
    else:
        allowed = np.setdiff1d(np.arange(vocab_size), np.asarray(random_floor))
    index = tf.random.stateless_uniform(
        shape, seed, maxval=allowed.size, dtype=tf.int32, alg="philox"
    )
    return tf.gather(tf.constant(allowed, tf.int32), index)
