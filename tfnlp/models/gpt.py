"""GPT (Radford et al. 2018) and GPT-2 (Radford et al. 2019): a causal Transformer.

The model, its language-model head, and both one token at a time.
"""

import functools

import keras
from keras import ops

from tfnlp.layers import Dropout, LayerNorm
from tfnlp.layers.base import DType, Tensor, check_positive
from tfnlp.models.encoder_parts import (
    embedding_parts,
    encoder_outputs,
    of_blocks,
    output_table,
    packed_input,
    restarted,
    transformer_blocks,
)

# Published sizes: GPT's from section 4.1 of its paper, GPT-2's from table 2.
GPT = dict(vocab_size=40478, max_positions=512, num_layers=12, hidden_size=768, num_heads=12)
GPT.update(intermediate_size=3072, norm_first=False)
_GPT2 = dict(vocab_size=50257, max_positions=1024, norm_first=True)
GPT2_SMALL = dict(_GPT2, num_layers=12, hidden_size=768, num_heads=12, intermediate_size=3072)
GPT2_MEDIUM = dict(_GPT2, num_layers=24, hidden_size=1024, num_heads=16, intermediate_size=4096)
GPT2_LARGE = dict(_GPT2, num_layers=36, hidden_size=1280, num_heads=20, intermediate_size=5120)
GPT2_XL = dict(_GPT2, num_layers=48, hidden_size=1600, num_heads=25, intermediate_size=6400)
# For a CPU: BERT's mini, with GPT-2's order of norms.
GPT_MINI = dict(num_layers=4, hidden_size=256, num_heads=4, intermediate_size=1024, norm_first=True)


def gpt(
    vocab_size: int = 40478,
    num_layers: int = 12,
    hidden_size: int = 768,
    num_heads: int = 12,
    intermediate_size: int = 3072,
    max_positions: int = 512,
    norm_first: bool = False,
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    activation: str = "gelu_tanh",
    norm_epsilon: float = 1e-5,
    initializer_range: float = 0.02,
    seq_length: int | None = None,
    packed: bool = False,
    dtype: DType = None,
    name: str = "gpt",
) -> keras.Model:
    """Return the decoder; the defaults are those of GPT (116.53 M weights).

    `x_0 = drop(E[ids] + P[positions])`, `x_l = block_l(x_{l-1})`, where each position attends to
    itself and to those before it. The blocks are post-norm; with `norm_first` (GPT-2) they are
    pre-norm and `LN(x_L)` follows. The position of a token is the number of real tokens before
    it, so that padding may stand on either side: it changes nothing at real positions.

    Args:
        norm_first: GPT-2's order of the layer norms instead of GPT's.
        activation: "gelu_tanh" (both papers' code), or "gelu".
        initializer_range: standard deviation of the normal that fills the weights; with
            `norm_first` that of the kernels which feed the residual stream is divided by
            `sqrt(2 L)` (GPT-2, section 2.3).
        others: as of `bert`.

    Inputs: dict of int32 `[B, T]`: `input_word_ids` and `input_mask` (1 for real tokens).

    Outputs: dict of `sequence_output` `[B, T, H]`, `encoder_outputs` (list of L, the last is
    `sequence_output`) and `embedding_output` `[B, T, H]`.

    Errors: those of `bert`.
    """
    block = of_blocks(locals())
    check_positive(num_layers=num_layers)

    inputs = {
        name: keras.Input((seq_length,), dtype="int32", name=name)
        for name in ("input_word_ids", "input_mask")
    }
    if packed:
        inputs["sequence_ids"] = packed_input(seq_length)
    real = ops.not_equal(inputs["input_mask"], 0)  # bool [B, T]
    before = ops.cumsum(ops.cast(real, "int32"), axis=1) - ops.cast(real, "int32")  # [B, T]
    if packed:
        before = restarted(before, inputs["sequence_ids"])
    initializer = functools.partial(keras.initializers.RandomNormal, stddev=initializer_range)

    tokens, positions, _ = embedding_parts(
        inputs, vocab_size, hidden_size, max_positions, 0, initializer, dtype, before
    )
    drop = Dropout(dropout, dtype=dtype, name="embedding_dropout")
    divisor = (2 * num_layers) ** 0.5 if norm_first else 1.0
    blocks = transformer_blocks(
        num_layers, initializer, causal=True, residual_divisor=divisor, **block
    )
    outputs = encoder_outputs(drop(tokens + positions), inputs, blocks)
    if norm_first:
        norm = LayerNorm(norm_epsilon, dtype=dtype, name="final_norm")
        outputs["sequence_output"] = outputs["encoder_outputs"][-1] = norm(
            outputs["sequence_output"]
        )
    return keras.Model(inputs, outputs, name=name)


def gpt_pretrainer(
    encoder: keras.Model, tied: bool = True, name: str = "gpt_pretrainer"
) -> keras.Model:
    """Return `encoder` (from `gpt`) with its language-model head.

    `lm_logits_t = E x_L,t` predict the token after t; E is the token table (GPT, section 3.1,
    eq. 2).

    Args:
        encoder: a model made by `gpt`.
        tied: whether E is the token table; else the head has one of its own.

    Inputs: those of the encoder.

    Outputs: those of the encoder and `lm_logits` float32 `[B, T, V]`.
    """
    outputs = dict(encoder.output)
    table = encoder.get_layer("token_embedding")
    table = table if tied else output_table(table, "lm_table")
    outputs["lm_logits"] = table(outputs["sequence_output"], reverse=True)
    return keras.Model(dict(encoder.input), outputs, name=name)


class GPTDecoder:
    """The logits of the next token, for a prompt and then token by token.

    It has the layers and weights of the model; each position is computed once, and attends to the
    keys and values of the positions before it, which are in the cache.

    Args:
        model: from `gpt` or `gpt_pretrainer`, of whose tables the output's is taken.
        vocab_size: V, the first so many tokens are generated; None: all of the model's. Some
            tables have more rows than the vocabulary has tokens.
    """

    def __init__(self, model: keras.Model, vocab_size: int | None = None) -> None:
        self._tokens = model.get_layer("token_embedding")
        self._positions = model.get_layer("position_embedding")
        names = [layer.name for layer in model.layers]
        self._table = model.get_layer("lm_table") if "lm_table" in names else self._tokens
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
        logits = self._table(x, reverse=True)
        return logits[:, : self.vocab_size], tuple(new)


def _longer(mask: Tensor, size: Tensor) -> Tensor:
    """Return the mask `[B, P]` with True for all later positions, `[B, M]`."""
    more = size - (mask.shape[1] or ops.shape(mask)[1])
    return ops.pad(ops.cast(mask, "bool"), ((0, 0), (0, more)), constant_values=True)
