"""Beam search for the most probable continuation."""

from collections.abc import Sequence

from keras import ops

from tfnlp.layers.base import check_positive
from tfnlp.layers.types import Tensor
from tfnlp.models.generation import Decoder

_IMPOSSIBLE = -1e9  # log-probability of a choice that is excluded


def beam_search(
    decoder: Decoder,
    ids: Tensor,
    mask: Tensor,
    max_new_tokens: int | Tensor,
    beams: int,
    *,
    length_penalty: float = 0.0,
    stop_ids: Sequence[int] = (),
    pad_id: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return the best continuations of each prompt by `log p(y) / ((5 + |y|) / 6)^alpha`.

    Every step keeps the `beams` best of all one-token continuations of a row's hypotheses, by
    `log p`; a hypothesis that ended in a stop token stays as it is. The penalty (Wu et al. 2016,
    eq. 14) decides between those that remain at the end; `|y|` counts the stop token.

    Args:
        decoder: a `GPTDecoder` or another `Decoder`. The last `constant_parts` of its cache, if
            it has that attribute, are equal for all hypotheses of a row and are not reordered.
        ids: int32 `[B, P]`, prompts.
        mask: bool `[B, P]`, False for padding, which must stand on the left.
        max_new_tokens: G, how many tokens to add at most; an int or an int32 scalar.
        beams: K, 1 or more.
        length_penalty: alpha; above 0 it favours long texts.
        stop_ids: ints.
        pad_id: int, the token that fills a row after its stop token.

    Returns:
        int32 `[B, K, G]` and float32 scores `[B, K]`, the best first.

    Raises:
        ValueError: for beams below 1.
    """
    check_positive(beams=beams)
    batch, prompt = ops.shape(ids)[0], ids.shape[1] or ops.shape(ids)[1]
    first = ops.arange(batch)[:, None] * beams  # [B, 1], row of each prompt's first hypothesis
    columns = ops.arange(max_new_tokens)[None, None]  # [1, 1, G]

    logits, cache = decoder.prefill(ids, mask, prompt + max_new_tokens)
    logits = ops.repeat(logits, beams, axis=0)  # [B*K, V]
    cache = tuple(ops.repeat(part, beams, axis=0) for part in cache)
    mask = ops.repeat(ops.cast(mask, "bool"), beams, axis=0)
    moving = len(cache) - getattr(decoder, "constant_parts", 0)
    # At first all hypotheses of a row are equal: only the first may be continued.
    later = ops.cast(ops.arange(beams)[None] > 0, "float32") * _IMPOSSIBLE  # [1, K]
    scores = ops.tile(later, (batch, 1))
    new = ops.full((batch, beams, max_new_tokens), pad_id, "int32")
    lengths, done = (ops.zeros((batch, beams), kind) for kind in ("int32", "bool"))
    stay = ops.where(ops.arange(decoder.vocab_size) == pad_id, 0.0, _IMPOSSIBLE)[
        None, None
    ]  # [1, 1, V]

    def body(*state: Tensor) -> tuple[Tensor, ...]:
        made, scores, new, lengths, done, logits, *cache = state
        scores, parents, tokens = _continued(scores, logits, done, stay)
        rows = ops.reshape(first + ops.cast(parents, first.dtype), (-1,))  # [B*K]

        def kept(x: Tensor) -> Tensor:
            rest = ops.shape(x)[2:]
            flat = ops.take(ops.reshape(x, (-1, *rest)), rows, axis=0)  # [B*K, ...]
            return ops.reshape(flat, (batch, beams, *rest))

        ended = done = kept(done)
        new = ops.where(columns == made, tokens[:, :, None], kept(new))
        lengths = kept(lengths) + ops.cast(ops.logical_not(ended), "int32")
        for stop in stop_ids:
            done = ops.logical_or(done, tokens == stop)
        moved = [ops.take(part, rows, axis=0) for part in cache[:moving]]
        cache = (*moved, *cache[moving:])
        logits, cache = decoder.step(ops.reshape(tokens, (-1,)), prompt + made, mask, cache)
        return (made + 1, scores, new, lengths, done, logits, *cache)

    def more(*state: Tensor) -> Tensor:
        made, _, _, _, done, *_ = state
        return ops.logical_and(made < max_new_tokens, ops.logical_not(ops.all(done)))

    start = (ops.zeros((), "int32"), scores, new, lengths, done, logits, *cache)
    _, scores, new, lengths, *_ = ops.while_loop(more, body, start)
    penalty = ((5.0 + ops.cast(lengths, "float32")) / 6.0) ** length_penalty
    scores, order = ops.top_k(scores / penalty, beams)  # [B, K], the best first
    return ops.take_along_axis(new, order[:, :, None], axis=1), scores


def _continued(
    scores: Tensor, logits: Tensor, done: Tensor, stay: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the best one-token continuations of a row's hypotheses.

    They are `[B, K]` each: `log p`, int index of the hypothesis, int32 token. The logits are
    `[B*K, V]`, `stay` `[1, 1, V]` is `log p` of the next token of a hypothesis that is done.
    """
    (batch, beams), size = ops.shape(scores), stay.shape[-1]
    log_p = ops.log_softmax(ops.reshape(logits, (batch, beams, size)), axis=-1)
    log_p = ops.where(done[:, :, None], stay, log_p)
    flat = ops.reshape(scores[:, :, None] + log_p, (batch, beams * size))
    scores, chosen = ops.top_k(flat, beams)  # [B, K]
    return scores, chosen // size, ops.cast(chosen % size, "int32")
