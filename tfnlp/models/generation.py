"""Generation of text by a language model: one loop, compiled to one graph."""

from collections.abc import Sequence
from typing import Any

from keras import ops

from tfnlp.layers.base import check_positive
from tfnlp.layers.types import Tensor
from tfnlp.models.decoder import Decoder
from tfnlp.models.sampling import greedy, sample


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
) -> Tensor:
    """Return continuations of prompts.

    Each new token is chosen by `greedy` (temperature 0) or `sample`. A row ends with the first of
    `stop_ids`, which is kept, and is filled with `pad_id`; the loop ends when all rows have ended.
    `P + G` must not exceed the model's positions: tokens beyond them would all get the last one.

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

    Returns:
        int32 `[B, G]`.

    Raises:
        ValueError: for max_new_tokens below 1, or no `seeds` although temperature is not 0.
    """
    if isinstance(max_new_tokens, int):
        check_positive(max_new_tokens=max_new_tokens)
    choice = _Choice(temperature, top_k, top_p, seeds, stop_ids, pad_id)
    state = start(decoder, ids, mask, max_new_tokens)
    tokens, state = _advance(decoder, state, max_new_tokens - 1, choice)
    # Nothing follows the last token, so the model does not read it.
    last, _ = choice(state["logits"], max_new_tokens - 1, state["done"])
    return ops.concatenate([tokens, last[:, None]], axis=1)


def start(
    decoder: Decoder, ids: Tensor, mask: Tensor, max_new_tokens: int | Tensor
) -> dict[str, Any]:
    """Read the prompts; return the state that `advance` continues. Arguments as in `generate`."""
    prompt = ids.shape[1] or ops.shape(ids)[1]
    logits, cache = decoder.prefill(ids, mask, prompt + max_new_tokens)
    return {
        "logits": logits,  # [B, V], of the next token
        "cache": cache,
        "mask": ops.cast(mask, "bool"),
        "made": ops.zeros((), "int32"),  # tokens so far
        "done": ops.zeros_like(logits[:, 0], "bool"),  # [B]
    }


def advance(
    decoder: Decoder,
    state: dict[str, Any],
    count: int,
    **choice: Any,
) -> tuple[Tensor, dict[str, Any]]:
    """Return the next `count` tokens, int32 `[B, count]`, and the state after them.

    One call and several calls give the same tokens. `choice`: the named arguments of `generate`.
    """
    return _advance(decoder, state, count, _Choice(**choice))


class _Choice:
    """The choice of the next tokens `[B]` and of the rows that end with them."""

    def __init__(
        self,
        temperature: float | Tensor = 0.0,
        top_k: int | Tensor = 0,
        top_p: float | Tensor = 1.0,
        seeds: Tensor | None = None,
        stop_ids: Sequence[int] = (),
        pad_id: int = 0,
    ) -> None:
        if seeds is None and not (isinstance(temperature, float | int) and temperature == 0):
            raise ValueError("`seeds` must be given unless temperature is the number 0")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.seeds, self.stop_ids, self.pad_id = seeds, stop_ids, pad_id

    def __call__(self, logits: Tensor, made: Tensor, done: Tensor) -> tuple[Tensor, Tensor]:
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

    def _drawn(self, logits: Tensor, made: Tensor) -> Tensor:
        return sample(logits, self.seeds, made, self.temperature, self.top_k, self.top_p)


def _advance(
    decoder: Decoder, state: dict[str, Any], count: int, choice: _Choice
) -> tuple[Tensor, dict[str, Any]]:
    prompt = state["mask"].shape[1] or ops.shape(state["mask"])[1]
    first = state["made"]
    columns = ops.arange(count)[None]  # [1, count]

    def body(*carry: Tensor) -> tuple[Tensor, ...]:
        made, logits, done, new, *cache = carry
        tokens, done = choice(logits, made, done)
        new = ops.where(columns == made - first, tokens[:, None], new)
        logits, cache = decoder.step(tokens, prompt + made, state["mask"], cache)
        return (made + 1, logits, done, new, *cache)

    def more(*carry: Tensor) -> Tensor:
        made, _, done, *_ = carry
        return ops.logical_and(made - first < count, ops.logical_not(ops.all(done)))

    new = ops.zeros_like(state["logits"][:, :1], "int32") + ops.cast(choice.pad_id, "int32")
    new = ops.tile(new, (1, count))  # [B, count]
    made, logits, done, new, *cache = ops.while_loop(
        more, body, (first, state["logits"], state["done"], new, *state["cache"])
    )
    after = {"logits": logits, "cache": tuple(cache), "made": made, "done": done}
    return new, {**state, **after}
