"""GPT one token at a time, with a cache of the keys and values of earlier positions."""

import keras
from keras import ops

from tfnlp.layers.types import Tensor


class GPTDecoder:
    """The logits of the next token, for a prompt and then token by token.

    It has the layers and weights of the model; each position is computed once, and attends to the
    keys and values of the positions before it, which are in the cache.

    Args:
        model: from `gpt` or `gpt_pretrainer`.
        vocab_size: only the first so many tokens are generated; None: all of the model's. Some
            tables have more rows than the vocabulary has tokens.

    Attributes:
        vocab_size: V, as given.
        max_positions: of the model.
    """

    def __init__(self, model: keras.Model, vocab_size: int | None = None) -> None:
        self._tokens = model.get_layer("token_embedding")
        self._positions = model.get_layer("position_embedding")
        names = [layer.name for layer in model.layers]
        blocks = sum(name.startswith("layer_") for name in names)
        self._blocks = [model.get_layer(f"layer_{index}") for index in range(blocks)]
        self._norm = model.get_layer("final_norm") if "final_norm" in names else None
        self.vocab_size = self._tokens.vocab_size if vocab_size is None else vocab_size
        self.max_positions = self._positions.max_positions

    def prefill(self, ids: Tensor, mask: Tensor, size: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read prompts, whose padding stands on the left, see `Decoder`.

        The cache has keys and values `[B, N, M, D]` of each block, M = `size`.
        """
        batch = ops.shape(ids)[0]
        attention = self._blocks[0].attention
        shape = (batch, attention.num_heads, size, attention.head_size)
        cache = (ops.zeros(shape, self._blocks[0].compute_dtype),) * (2 * len(self._blocks))
        real = ops.cast(mask, "int32")
        positions = ops.cumsum(real, axis=1) - real  # real tokens before
        return self._read(ids, positions, _longer(mask, size), cache, 0)

    def step(
        self, tokens: Tensor, index: Tensor, mask: Tensor, cache: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read one more token, see `Decoder`."""
        padding = ops.sum(ops.cast(ops.logical_not(mask), "int32"), axis=1, keepdims=True)
        real = _longer(mask, cache[0].shape[2] or ops.shape(cache[0])[2])
        return self._read(tokens[:, None], index - padding, real, cache, index)

    def _read(
        self, ids: Tensor, positions: Tensor, real: Tensor, cache: tuple[Tensor, ...], index: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        x = self._tokens(ids)  # [B, T, H]
        # A row that has ended continues with padding, which may exceed the positions.
        positions = ops.minimum(positions, self.max_positions - 1)
        x = x + self._positions(x, positions=positions)
        new = []
        for number, block in enumerate(self._blocks):
            keys, values = cache[2 * number : 2 * number + 2]
            x, keys, values = block(
                x, mask=real, cached_keys=keys, cached_values=values, cache_index=index
            )
            new += [keys, values]
        x = x[:, -1]  # [B, H]
        if self._norm is not None:
            x = self._norm(x)
        logits = self._tokens(x, reverse=True)
        return logits[:, : self.vocab_size], tuple(new)


def _longer(mask: Tensor, size: Tensor) -> Tensor:
    """Return the mask `[B, P]` with True for all later positions, `[B, M]`."""
    more = size - (mask.shape[1] or ops.shape(mask)[1])
    return ops.pad(ops.cast(mask, "bool"), ((0, 0), (0, more)), constant_values=True)
