"""Generation of text by a language model: one loop, compiled to one graph."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from keras import ops

from tfnlp.layers.base import Tensor, check_positive

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_NEVER = -1e30  # the logit of a token that must not come


class Decoder(Protocol):
    """A model that gives the logits of the next token, as `generate` and `beam_search` use it.

    `GPTDecoder`, `Seq2SeqDecoder` and `TransformerDecoder` have this interface. The prompt of an
    encoder-decoder is the source.

    A decoder may have an int `constant_parts`: how many of the last parts of its cache depend on
    the prompt alone.
    """

    vocab_size: int  # tokens V that the logits are of

    def prefill(self, ids: Tensor, mask: Tensor, size: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read prompts, int32 `[B, P]` with a mask, bool `[B, P]`, False for padding.

        `size` is P and the number of tokens that will follow. Returned are logits of the next
        token, float32 `[B, V]`, and the cache, a tuple of tensors `[B, ...]`.
        """
        ...

    def step(
        self, tokens: Tensor, index: Tensor, mask: Tensor, cache: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read one more token, int32 `[B]`; return what `prefill` does.

        `index` is P and the number of tokens that were read after the prompt, whose mask is given.
        """
        ...


def generate(
    decoder: Decoder,
    ids: Tensor,
    mask: Tensor,
    max_new_tokens: int | Tensor,
    *,
    temperature: float | Tensor = 0.0,
    top_k: int | Tensor = 0,
    top_p: float | Tensor = 1.0,
    seeds: Tensor | None = None,
    stop_ids: Sequence[int] = (),
    pad_id: int = 0,
    repetition_penalty: float = 1.0,
    no_repeat_ngram: int = 0,
    min_new_tokens: int = 0,
    scores: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return continuations of prompts.

    Each new token is chosen by `greedy` (temperature 0) or `sample`, of logits that are changed
    before, in this order:

        `repetition_penalty` r   x / r if x > 0, else r x, of each token that the row has, its
                                 prompt included (Keskar et al. 2019, section 4.1)
        `no_repeat_ngram` n      no token that would complete n tokens that the row has; 0: any
        `min_new_tokens`         none of `stop_ids` before there are so many

    A row ends with the first of `stop_ids`, which is kept, and is filled with `pad_id`; the loop
    ends when all rows have ended. `P + G` must not exceed the model's positions: tokens beyond them
    would all get the last one.

    Args:
        decoder: a `GPTDecoder` or another `Decoder`.
        ids: int32 `[B, P]`, prompts.
        mask: bool `[B, P]`, False for padding, which must stand on the left.
        max_new_tokens: how many tokens to add at most, G; an int or an int32 scalar.
        temperature: 0 or more; a float or a float32 scalar.
        top_k, top_p: see `sample`.
        seeds: int32 `[B]`, needed unless temperature is the number 0; the row's seed and prompt
            alone decide its text, in any batch.
        stop_ids: ints.
        pad_id: int.
        repetition_penalty, no_repeat_ngram, min_new_tokens: see above.
        scores: also return `log p` of each token, of the model's own logits.

    Returns:
        int32 `[B, G]`; with `scores` also float32 `[B, G]`, 0 after a row's end.

    Raises:
        ValueError: for max_new_tokens below 1, or no `seeds` although temperature is not 0.
    """
    if isinstance(max_new_tokens, int):
        check_positive(max_new_tokens=max_new_tokens)
    choice = Choice(
        temperature, top_k, top_p, seeds, stop_ids, pad_id, repetition_penalty, no_repeat_ngram,
        min_new_tokens,
    )  # fmt: skip
    state = start(decoder, ids, mask, max_new_tokens)
    tokens, log_p, state = _advance(decoder, state, max_new_tokens - 1, choice, scores)
    # Nothing follows the last token, so the model does not read it.
    logits, made, ended = state["logits"], max_new_tokens - 1, state["done"]
    last, _ = choice(logits, made, ended, state["history"])
    tokens = ops.concatenate([tokens, last[:, None]], axis=1)
    if not scores:
        return tokens
    return tokens, ops.concatenate([log_p, _log_p(logits, last, ended)[:, None]], axis=1)


def start(
    decoder: Decoder, ids: Tensor, mask: Tensor, max_new_tokens: int | Tensor
) -> dict[str, Any]:
    """Read the prompts; return the state that `advance` continues. Arguments as in `generate`."""
    prompt = ids.shape[1] or ops.shape(ids)[1]
    logits, cache = decoder.prefill(ids, mask, prompt + max_new_tokens)
    given = ops.where(ops.cast(mask, "bool"), ops.cast(ids, "int32"), -1)
    before = ops.full((ops.shape(ids)[0], max_new_tokens), -1, "int32")
    return {
        "logits": logits,  # [B, V], of the next token
        "cache": cache,
        "mask": ops.cast(mask, "bool"),
        "made": ops.zeros((), "int32"),  # tokens so far
        "history": ops.concatenate([before, given], axis=1),  # [B, G + P], tokens so far after -1
        "done": ops.zeros_like(logits[:, 0], "bool"),  # [B]
    }


def advance(
    decoder: Decoder,
    state: dict[str, Any],
    count: int,
    *,
    scores: bool = False,
    **choice: Any,
) -> tuple[Any, dict[str, Any]]:
    """Return what `generate` does for the next `count` tokens, and the state after them.

    One call and several calls give the same tokens. `choice`: the named arguments of `generate`.
    """
    tokens, log_p, state = _advance(decoder, state, count, Choice(**choice), scores)
    return (tokens, log_p) if scores else tokens, state


@dataclasses.dataclass
class Choice:
    """The choice of the next tokens `[B]` and of the rows that end with them, see `generate`."""

    temperature: float | Tensor = 0.0
    top_k: int | Tensor = 0
    top_p: float | Tensor = 1.0
    seeds: Tensor | None = None
    stop_ids: Sequence[int] = ()
    pad_id: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    min_new_tokens: int = 0

    def __post_init__(self) -> None:
        greedy = isinstance(self.temperature, float | int) and self.temperature == 0
        if self.seeds is None and not greedy:
            raise ValueError("`seeds` must be given unless temperature is the number 0")

    @property
    def reads_history(self) -> bool:
        return self.repetition_penalty != 1 or self.no_repeat_ngram > 0

    def __call__(
        self, logits: Tensor, made: Tensor, done: Tensor, history: Tensor
    ) -> tuple[Tensor, Tensor]:
        logits = self.changed(logits, made, history)
        if not isinstance(self.temperature, float | int):
            tokens = ops.cond(
                self.temperature > 0, lambda: self._drawn(logits, made), lambda: greedy(logits)
            )
        elif self.temperature == 0:
            tokens = greedy(logits)
        else:
            tokens = self._drawn(logits, made)
        tokens = ops.where(done, self.pad_id, tokens)
        for stop in self.stop_ids:
            done = ops.logical_or(done, tokens == stop)
        return tokens, done

    def changed(self, logits: Tensor, made: Tensor, history: Tensor) -> Tensor:
        """Return the logits that a token is chosen by, see `generate`."""
        size = logits.shape[-1]
        if self.repetition_penalty != 1:
            changed = ops.where(
                logits > 0, logits / self.repetition_penalty, logits * self.repetition_penalty
            )
            logits = ops.where(_held(history, size), changed, logits)
        if self.no_repeat_ngram:
            logits = ops.where(
                _held(_completing(history, self.no_repeat_ngram), size), _NEVER, logits
            )
        if self.min_new_tokens and self.stop_ids:
            stops = sum(ops.one_hot(stop, size) for stop in self.stop_ids) > 0
            early = ops.logical_and(stops, made < self.min_new_tokens)
            logits = ops.where(early[None], _NEVER, logits)
        return logits

    def _drawn(self, logits: Tensor, made: Tensor) -> Tensor:
        return sample(logits, self.seeds, made, self.temperature, self.top_k, self.top_p)


def _held(tokens: Tensor, size: int) -> Tensor:
    """Return which of `size` tokens occur in int32 `[B, L]`, where -1 is none: bool `[B, V]`."""
    batch, length = ops.shape(tokens)
    rows = ops.repeat(ops.arange(batch)[:, None], length, axis=1)
    places = ops.stack([rows, ops.where(tokens < 0, size, tokens)], axis=-1)  # [B, L, 2]
    counts = ops.scatter(
        ops.reshape(places, (-1, 2)), ops.ones((batch * length,), "int32"), (batch, size + 1)
    )
    return counts[:, :size] > 0


def _completing(history: Tensor, n: int) -> Tensor:
    """Return the tokens that came wherever a row had its last `n - 1` before, else -1: `[B, L]`."""
    batch, length = ops.shape(history)
    padded = ops.concatenate([ops.full((batch, n - 1), -1, "int32"), history], axis=1)
    same = history >= 0  # [B, L]
    for j in range(n - 1):
        last = padded[:, length + j : length + j + 1]
        same = ops.logical_and(same, ops.logical_and(padded[:, j : length + j] == last, last >= 0))
    return ops.where(same, history, -1)


def _log_p(logits: Tensor, tokens: Tensor, done: Tensor) -> Tensor:
    """Return `log p` of tokens `[B]` by logits `[B, V]`, 0 for rows that had ended before."""
    log_p = ops.take_along_axis(ops.log_softmax(logits, axis=-1), tokens[:, None], axis=1)[:, 0]
    return ops.where(done, ops.zeros_like(log_p), log_p)


def _advance(
    decoder: Decoder, state: dict[str, Any], count: int, choice: Choice, scores: bool = False
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    prompt = state["mask"].shape[1] or ops.shape(state["mask"])[1]
    first = state["made"]
    columns = ops.arange(count)[None]  # [1, count]

    def body(*carry: Tensor) -> tuple[Tensor, ...]:
        made, logits, ended, history, new, log_p, *cache = carry
        tokens, done = choice(logits, made, ended, history)
        column = columns == made - first
        new = ops.where(column, tokens[:, None], new)
        if scores:
            log_p = ops.where(column, _log_p(logits, tokens, ended)[:, None], log_p)
        if choice.reads_history:
            history = ops.concatenate([history[:, 1:], tokens[:, None]], axis=1)
        logits, cache = decoder.step(tokens, prompt + made, state["mask"], cache)
        return (made + 1, logits, done, history, new, log_p, *cache)

    def more(*carry: Tensor) -> Tensor:
        made, _, done, *_ = carry
        return ops.logical_and(made - first < count, ops.logical_not(ops.all(done)))

    new = ops.zeros_like(state["logits"][:, :1], "int32") + ops.cast(choice.pad_id, "int32")
    new = ops.tile(new, (1, count))  # [B, count]
    log_p = ops.zeros_like(new, "float32")
    begun = (first, state["logits"], state["done"], state["history"], new, log_p)
    made, logits, done, history, new, log_p, *cache = ops.while_loop(
        more, body, (*begun, *state["cache"])
    )
    after = {"logits": logits, "cache": tuple(cache), "made": made, "done": done}
    return new, log_p, {**state, **after, "history": history}


def greedy(logits: Tensor) -> Tensor:
    """Return the most probable token: float32 `[B, V]` to int32 `[B]`."""
    return ops.cast(ops.argmax(logits, axis=-1), "int32")


def sample(
    logits: Tensor,
    seeds: Tensor,
    step: Tensor,
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor = 0,
    top_p: float | Tensor = 1.0,
) -> Tensor:
    """Return a token drawn from the largest values of `softmax(logits / temperature)`.

    `top_k` keeps the k most probable tokens (Fan et al. 2018, section 5.4), `top_p` the fewest that
    together have that probability among those kept so far (Holtzman et al. 2020, section 3.1).
    Then the token is `min {v: sum_{w <= v} p_w > u sum_w p_w}`, with tokens in the order of their
    ids, or, where some are left out, of their probabilities. u is one uniform number for each row,
    which depends on the row's seed and on `step` alone: a row draws the same in any batch.

    Args:
        logits: float32 `[B, V]`.
        seeds: int32 `[B]`.
        step: int scalar, number of tokens drawn before.
        temperature: above 0; a float or a float32 scalar.
        top_k: from 0 (all) to V; an int, or, where shapes may be dynamic, an int32 scalar.
        top_p: above 0, at most 1 (all); a float or a float32 scalar.

    Returns:
        int32 `[B]`.
    """
    # With the maximum at 0 and no division by 0, any temperature gives probabilities, not NaN.
    logits = logits - ops.max(logits, axis=-1, keepdims=True)
    logits = logits / ops.maximum(ops.cast(temperature, logits.dtype), 1e-30)
    u = uniform(seeds, step)[:, None]  # [B, 1]
    size = logits.shape[-1]
    if isinstance(top_k, int) and isinstance(top_p, float | int):
        k = min(top_k or size, size)
        if k == size and top_p >= 1:
            return _draw(ops.softmax(logits, axis=-1), u)
        return greedy(logits) if k == 1 else _from_largest(logits, u, k, top_p)
    # Sorting is slow, and needed only if one of the limits applies.
    k = ops.where(top_k > 0, ops.minimum(top_k, size), size)
    return ops.cond(
        ops.logical_and(k == size, top_p >= 1),
        lambda: _draw(ops.softmax(logits, axis=-1), u),
        lambda: _from_largest(logits, u, k, top_p),
    )


def _from_largest(logits: Tensor, u: Tensor, top_k: int | Tensor, top_p: float | Tensor) -> Tensor:
    kept, tokens = ops.top_k(logits, top_k)  # [B, K], the largest first
    p = ops.softmax(kept, axis=-1)
    before = ops.cumsum(p, axis=-1) - p
    p = ops.where(before < top_p, p, ops.zeros_like(p))
    place = _draw(p, u)[:, None]  # [B, 1]
    return ops.cast(ops.take_along_axis(tokens, place, axis=1)[:, 0], "int32")


def _draw(p: Tensor, u: Tensor) -> Tensor:
    """Return `min {v: sum_{w <= v} p_w > u sum_w p_w}` of `p` `[B, V]`, `u` `[B, 1]`: int32 `[B]`.

    Cumulated sums computed in parallel may fall because of rounding. Sums where p is 0 are left
    out, so that a token of probability 0 is never drawn.
    """
    sums = ops.where(p > 0, ops.cumsum(p, axis=-1), ops.zeros_like(p))
    above = sums > u * ops.max(sums, axis=-1, keepdims=True)
    return ops.cast(ops.argmax(ops.cast(above, "int32"), axis=-1), "int32")


def uniform(seeds: Tensor, step: Tensor) -> Tensor:
    """Return numbers in [0, 1) of seeds `[B]`, 24 bits of `threefry((seed, 0), (step, 0))`."""
    seeds = ops.cast(seeds, "uint32")
    zeros = ops.zeros_like(seeds)
    bits, _ = threefry((seeds, zeros), (zeros + ops.cast(step, "uint32"), zeros))
    return ops.cast(ops.right_shift(bits, ops.cast(8, "uint32")), "float32") * 2.0**-24


def threefry(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return Threefry-2x32 with 20 rounds of a counter (Salmon et al. 2011).

    For every key it is a bijection of the counter. All three are two uint32 tensors of one shape.
    """

    def number(value: int) -> Tensor:
        return ops.cast(value, "uint32")

    a, b = key
    keys = (a, b, ops.bitwise_xor(ops.bitwise_xor(a, b), number(0x1BD11BDA)))
    x, y = counter[0] + a, counter[1] + b
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x = x + y
            left = ops.left_shift(y, number(rotation))
            y = ops.bitwise_or(left, ops.right_shift(y, number(32 - rotation)))
            y = ops.bitwise_xor(y, x)
        x = x + keys[(block + 1) % 3]
        y = y + keys[(block + 2) % 3] + number(block + 1)
    return x, y
