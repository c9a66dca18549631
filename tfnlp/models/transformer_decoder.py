"""The Transformer's decoder one token at a time, with a cache of keys and values."""

import keras
from keras import ops

from tfnlp.layers.types import Tensor


class TransformerDecoder:
    """The logits of the next target token, for a source and then token by token.

    It has the layers and weights of the model. The source is encoded once, and its keys and values
    are computed once for each block; each target position is computed once, and attends to the keys
    and values of the positions before it. As a `Decoder` it works with `generate` and
    `beam_search`: their prompt is the source.

    Args:
        model: from `transformer`.
        start_id: the first token of the decoder's input.
        vocab_size: only the first so many tokens are generated; None: all of the model's. Some
            tables have more rows than the vocabulary has tokens.

    Attributes:
        vocab_size: V, as given.
        constant_parts: how many of the last parts of a cache depend on the source alone.
    """

    def __init__(self, model: keras.Model, start_id: int, vocab_size: int | None = None) -> None:
        self._tokens = model.get_layer("token_embedding")
        self._positions = model.get_layer("positions")
        names = [layer.name for layer in model.layers]
        count = sum(name.startswith("decoder_layer_") for name in names)
        self._blocks = [model.get_layer(f"decoder_layer_{index}") for index in range(count)]
        self._norm = model.get_layer("decoder_norm") if "decoder_norm" in names else None
        self._encoder = keras.Model(
            {name: model.input[name] for name in ("input_word_ids", "input_mask")},
            model.output["encoder_output"],
        )
        self.vocab_size = self._tokens.vocab_size if vocab_size is None else vocab_size
        self.start_id = start_id
        self.constant_parts = 2 * count

    def prefill(self, ids: Tensor, mask: Tensor, size: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read sources `[B, S]`, padded on the right, and the start token, see `Decoder`.

        The cache has keys and values of the target for each block, `[B, N, size - S + 1, D]`, then
        those of the source, `[B, N, S, D]`.
        """
        batch, source = ops.shape(ids)[0], ids.shape[1] or ops.shape(ids)[1]
        ids, real = ops.convert_to_tensor(ids), ops.cast(mask, "int32")
        encoded = self._encoder({"input_word_ids": ids, "input_mask": real})  # [B, S, H]
        attention, dtype = self._blocks[0].attention, self._blocks[0].compute_dtype
        shape = (batch, attention.num_heads, size - source + 1, attention.head_size)
        of_target = [ops.zeros(shape, dtype)] * (2 * len(self._blocks))
        of_source = [x for b in self._blocks for x in b.cross_attention.keys_values(encoded)]
        start = ops.full((batch,), self.start_id, "int32")
        return self._read(start, 0, mask, (*of_target, *of_source))

    def step(
        self, tokens: Tensor, index: Tensor, mask: Tensor, cache: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read one more target token, see `Decoder`."""
        source = mask.shape[1] or ops.shape(mask)[1]
        return self._read(tokens, index - source + 1, mask, cache)  # the start token came first

    def _read(
        self, tokens: Tensor, position: Tensor, mask: Tensor, cache: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        x = self._tokens(tokens[:, None])  # [B, 1, H]
        x = x * x.shape[-1] ** 0.5
        x = x + self._positions(x, start=position)
        of_source = cache[2 * len(self._blocks) :]
        new = []
        for number, block in enumerate(self._blocks):
            pair = slice(2 * number, 2 * number + 2)
            keys, values = cache[pair]
            context_keys, context_values = of_source[pair]
            x, keys, values = block(
                x,
                cached_keys=keys,
                cached_values=values,
                cache_index=position,
                context_mask=mask,
                context_keys=context_keys,
                context_values=context_values,
            )
            new += [keys, values]
        x = x[:, 0]  # [B, H]
        if self._norm is not None:
            x = self._norm(x)
        logits = self._tokens(x, reverse=True)
        return logits[:, : self.vocab_size], (*new, *of_source)
