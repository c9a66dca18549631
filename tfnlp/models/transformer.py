"""The Transformer (Vaswani et al. 2017): an encoder of the source, a decoder of the target.

The model, and its decoder one token at a time.
"""

from typing import Any

import keras
from keras import ops

from tfnlp.layers import (
    Dropout,
    LayerNorm,
    SinusoidalPositions,
    TokenEmbedding,
    TransformerBlock,
)
from tfnlp.layers.base import DType, Tensor, check_positive
from tfnlp.models.encoder_parts import of_blocks

# Table 3 of the paper; its vocabulary of English and German has about 37,000 tokens.
TRANSFORMER_BASE = dict(vocab_size=37000, num_layers=6, hidden_size=512, num_heads=8)
TRANSFORMER_BASE.update(intermediate_size=2048, dropout=0.1)
TRANSFORMER_BIG = dict(vocab_size=37000, num_layers=6, hidden_size=1024, num_heads=16)
TRANSFORMER_BIG.update(intermediate_size=4096, dropout=0.3)
# For a CPU.
TRANSFORMER_MINI = dict(num_layers=3, hidden_size=256, num_heads=4, intermediate_size=1024)


def transformer(
    vocab_size: int = 37000,
    num_layers: int = 6,
    hidden_size: int = 512,
    num_heads: int = 8,
    intermediate_size: int = 2048,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    activation: str = "relu",
    norm_first: bool = False,
    norm_epsilon: float = 1e-6,
    dtype: DType = None,
    name: str = "transformer",
) -> keras.Model:
    """Return encoder and decoder; the defaults are those of the paper's base model.

    `x_0 = drop(sqrt(H) E[source] + PE)`, `x_l = block_l(x_{l-1})` (sections 3.1, 3.4, 3.5);
    `y_0 = drop(sqrt(H) E[target] + PE)`, `y_l = block_l(y_{l-1}, context=x_L)`, where each target
    position attends to itself and to those before it; `logits = y_L E^T`. One table E for the
    source, the target and the softmax, initialized with `N(0, 1/H)` so that `sqrt(H) E` is of size
    1; the kernels are initialized with Glorot & Bengio's uniform distribution. With `norm_first`
    the blocks are pre-norm, and `LN(x_L)` and `LN(y_L)` follow.

    With V = 37,000 the base model has 63.1 M weights, the big one 214.2 M (the paper's table 3
    says 65 and 213 M).

    Args:
        vocab_size: tokens V, of both languages together.
        num_layers: blocks L of the encoder, and as many of the decoder.
        norm_first: layer norms before the sub-layers instead of after.
        others: as of `bert`.

    Inputs: dict of int32: `input_word_ids` `[B, S]`, `input_mask` `[B, S]` (1 for real tokens),
    `target_word_ids` `[B, T]`, the decoder's input: a start token, then the target shifted to
    the right. Padding stands on the right; the target's needs no mask, as no position attends to
    later ones.

    Outputs: dict of `lm_logits` float32 `[B, T, V]` (those at t predict target token t),
    `sequence_output` `[B, T, H]`, `decoder_outputs` (list of L, the last is `sequence_output`),
    `encoder_output` `[B, S, H]`, `encoder_outputs` (list of L, the last is `encoder_output`) and
    `attention` float32 `[B, N, T, S]`, the attention of the decoder's last block to the source.

    Errors: those of `bert`.
    """
    block = of_blocks(locals())
    check_positive(num_layers=num_layers, hidden_size=hidden_size)
    names = ("input_word_ids", "input_mask", "target_word_ids")
    inputs = {key: keras.Input((None,), dtype="int32", name=key) for key in names}
    real = ops.not_equal(inputs["input_mask"], 0)  # bool [B, S]
    table = TokenEmbedding(
        vocab_size,
        hidden_size,
        initializer=keras.initializers.RandomNormal(stddev=hidden_size**-0.5),
        dtype=dtype,
        name="token_embedding",
    )
    positions = SinusoidalPositions(dtype=dtype, name="positions")

    def embedded(ids: Tensor, part: str) -> Tensor:
        tokens = table(ids) * hidden_size**0.5  # [B, S or T, H]
        return Dropout(dropout, dtype=dtype, name=f"{part}_dropout")(tokens + positions(tokens))

    encoder_outputs = _encoder(
        embedded(inputs["input_word_ids"], "encoder"), real, num_layers, block
    )
    decoder_outputs, scores = _decoder(
        embedded(inputs["target_word_ids"], "decoder"), encoder_outputs[-1], real, num_layers, block
    )
    outputs = {
        "lm_logits": table(decoder_outputs[-1], reverse=True),
        "sequence_output": decoder_outputs[-1],
        "decoder_outputs": decoder_outputs,
        "encoder_output": encoder_outputs[-1],
        "encoder_outputs": encoder_outputs,
        "attention": scores,
    }
    return keras.Model(inputs, outputs, name=name)


def _encoder(x: Tensor, real: Tensor, num_layers: int, block: dict[str, Any]) -> list[Tensor]:
    """Return the outputs of the encoder's blocks, each `[B, S, H]`, of the embedded source x."""
    outputs = []
    for index in range(num_layers):
        x = TransformerBlock(**block, name=f"encoder_layer_{index}")(x, mask=real)
        outputs.append(x)
    return _normalized(outputs, "encoder_norm", block)


def _decoder(
    y: Tensor, source: Tensor, real: Tensor, num_layers: int, block: dict[str, Any]
) -> tuple[list[Tensor], Tensor]:
    """Return the outputs of the decoder's blocks, each `[B, T, H]`, and the last attention map.

    y is the embedded target, `source` the encoder's output.
    """
    outputs, scores = [], None
    for index in range(num_layers):
        layer = TransformerBlock(**block, causal=True, name=f"decoder_layer_{index}")
        if index < num_layers - 1:
            y = layer(y, context=source, context_mask=real)
        else:
            y, scores = layer(y, context=source, context_mask=real, return_scores=True)
        outputs.append(y)
    return _normalized(outputs, "decoder_norm", block), scores


def _normalized(outputs: list[Tensor], name: str, block: dict[str, Any]) -> list[Tensor]:
    """Return the outputs of a stack, with a layer norm on the last if the blocks are pre-norm."""
    if not block["norm_first"]:
        return outputs
    norm = LayerNorm(block["norm_epsilon"], dtype=block["dtype"], name=name)
    return [*outputs[:-1], norm(outputs[-1])]


class TransformerDecoder:
    """The logits of the next target token, for a source and then token by token.

    It has the layers and weights of the model. The source is encoded once, and its keys and values
    are computed once for each block; each target position is computed once, and attends to the keys
    and values of the positions before it. As a `Decoder` it works with `generate` and
    `beam_search`: their prompt is the source.

    Args:
        model: from `transformer`.
        start_id: the first token of the decoder's input.
        vocab_size: as of `GPTDecoder`.
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
