"""Beam search for the most probable continuations."""

from collections.abc import Sequence

from keras import ops

from tfnlp.layers.base import Tensor, check_positive
from tfnlp.models.generation import Choice, Decoder, start

_IMPOSSIBLE = -1e9  # log-probability of a choice that is excluded


def beam_search(
    decoder: Decoder,
    ids: Tensor,
    mask: Tensor,
    max_new_tokens: int | Tensor,
    beams: int,
    *,
    length_penalty: float = 0.0,
    shifted: bool = True,
    stop_ids: Sequence[int] = (),
    pad_id: int = 0,
    repetition_penalty: float = 1.0,
    no_repeat_ngram: int = 0,
    min_new_tokens: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return the best continuations y of each prompt by `log p(y) / penalty(|y|)`.

        penalty(n) = ((5 + n) / 6)^alpha    if `shifted` (Wu et al. 2016, eq. 14), else n^alpha

    where `|y|` counts the stop token. Every step lists the one-token continuations of a row's K
    hypotheses in the order of `log p`. Of the first K those with a stop token, or G tokens, have
    ended: the K best by score are kept. The first K others go on. A row has ended when it has K
    such, and its best hypothesis now scores no better than the worst of them. This is the search of
    Hugging Face's `generate`, with its `early_stopping=False`.

    Args:
        decoder: a `GPTDecoder` or another `Decoder`. The last `constant_parts` of its cache, if
            it has that attribute, are equal for all hypotheses of a row and are not reordered.
        beams: K, 1 or more.
        length_penalty: alpha; above 0 it favours long texts.
        repetition_penalty, no_repeat_ngram, min_new_tokens: change `log p` of each token.
        others: as of `generate`, G is `max_new_tokens`.

    Returns:
        int32 `[B, K, G]` and float32 scores `[B, K]`, the best first.

    Raises:
        ValueError: for beams below 1.
    """
    check_positive(beams=beams)
    batch, prompt = ops.shape(ids)[0], ids.shape[1] or ops.shape(ids)[1]
    size = decoder.vocab_size
    listed = beams * min(size, max(2, 1 + len(stop_ids)))  # K of them have no stop token
    first = ops.arange(batch)[:, None] * beams  # [B, 1], row of each prompt's first hypothesis
    columns = ops.arange(max_new_tokens)[None, None]  # [1, 1, G]
    in_front = ops.arange(listed)[None] < beams  # [1, M]
    choice = Choice(
        stop_ids=stop_ids, repetition_penalty=repetition_penalty, no_repeat_ngram=no_repeat_ngram,
        min_new_tokens=min_new_tokens,
    )  # fmt: skip

    def penalty(length: Tensor) -> Tensor:
        length = ops.cast(length, "float32")
        return ((5.0 + length) / 6.0 if shifted else length) ** length_penalty

    state = start(decoder, ids, mask, max_new_tokens)
    logits, history = (ops.repeat(state[name], beams, axis=0) for name in ("logits", "history"))
    cache = tuple(ops.repeat(part, beams, axis=0) for part in state["cache"])
    mask = ops.repeat(state["mask"], beams, axis=0)
    moving = len(cache) - getattr(decoder, "constant_parts", 0)
    # At first all hypotheses of a row are equal: only the first may be continued.
    later = ops.cast(ops.arange(beams)[None] > 0, "float32") * _IMPOSSIBLE  # [1, K]
    scores = ops.tile(later, (batch, 1))
    new = best = ops.full((batch, beams, max_new_tokens), pad_id, "int32")
    best_scores = ops.full((batch, beams), _IMPOSSIBLE, "float32")
    is_open = ops.ones((batch, 1), "bool")

    def body(*state: Tensor) -> tuple[Tensor, ...]:
        made, scores, new, best, best_scores, is_open, logits, history, *cache = state
        log_p = choice.changed(ops.log_softmax(logits, axis=-1), made, history)  # [B*K, V]
        log_p = scores[:, :, None] + ops.reshape(log_p, (batch, beams, size))
        log_p, chosen = ops.top_k(ops.reshape(log_p, (batch, beams * size)), listed)  # [B, M]
        parents, tokens = chosen // size, ops.cast(chosen % size, "int32")
        texts = ops.where(columns == made, tokens[:, :, None], _of(new, parents))  # [B, M, G]

        ended = made + 1 == max_new_tokens
        for stop in stop_ids:
            ended = ops.logical_or(ended, tokens == stop)
        ended = ops.logical_and(ended, ops.ones_like(tokens, "bool"))
        final = ops.logical_and(ops.logical_and(ended, in_front), is_open)
        found = ops.where(final, log_p / penalty(made + 1), _IMPOSSIBLE)
        found = ops.concatenate([best_scores, found], axis=1)
        best_scores, order = ops.top_k(found, beams)
        best = _of(ops.concatenate([best, texts], axis=1), order)

        scores, order = ops.top_k(ops.where(ended, log_p + _IMPOSSIBLE, log_p), beams)
        new, tokens, parents = (_of(x, order) for x in (texts, tokens, parents))
        could = scores[:, :1] / penalty(made + 1)
        is_open = ops.logical_and(is_open, could > best_scores[:, -1:])

        rows = ops.reshape(first + ops.cast(parents, first.dtype), (-1,))  # [B*K]
        tokens = ops.reshape(tokens, (-1,))
        if choice.reads_history:
            history = ops.take(history, rows, axis=0)
            history = ops.concatenate([history[:, 1:], tokens[:, None]], axis=1)
        moved = [ops.take(part, rows, axis=0) for part in cache[:moving]]
        cache = (*moved, *cache[moving:])
        logits, cache = decoder.step(tokens, prompt + made, mask, cache)
        return (made + 1, scores, new, best, best_scores, is_open, logits, history, *cache)

    def more(*state: Tensor) -> Tensor:
        made, _, _, _, _, is_open, *_ = state
        return ops.logical_and(made < max_new_tokens, ops.any(is_open))

    begun = (ops.zeros((), "int32"), scores, new, best, best_scores, is_open, logits, history)
    _, _, _, best, best_scores, *_ = ops.while_loop(more, body, (*begun, *cache))
    return best, best_scores


def _of(x: Tensor, order: Tensor) -> Tensor:
    """Return the entries `order` `[B, N]` of each row of `[B, M, ...]`."""
    order = order[:, :, None] if len(x.shape) == 3 else order
    return ops.take_along_axis(x, order, axis=1)
