"""The Transformer (Vaswani et al. 2017): an encoder that reads, a decoder that writes."""

import keras
from keras import ops

from tfnlp.layers import (
    Dropout,
    LayerNorm,
    SinusoidalPositions,
    TokenEmbedding,
    TransformerBlock,
)

# Table 3 of the paper; its vocabulary of English and German has about 37,000 tokens.
TRANSFORMER_BASE = dict(vocab_size=37000, num_layers=6, hidden_size=512, num_heads=8)
TRANSFORMER_BASE.update(intermediate_size=2048, dropout=0.1)
TRANSFORMER_BIG = dict(vocab_size=37000, num_layers=6, hidden_size=1024, num_heads=16)
TRANSFORMER_BIG.update(intermediate_size=4096, dropout=0.3)
# For a CPU.
TRANSFORMER_MINI = dict(num_layers=3, hidden_size=256, num_heads=4, intermediate_size=1024)


def transformer(
    vocab_size=37000,
    num_layers=6,
    hidden_size=512,
    num_heads=8,
    intermediate_size=2048,
    dropout=0.1,
    attention_dropout=0.0,
    activation="relu",
    norm_first=False,
    norm_epsilon=1e-6,
    source_length=None,
    target_length=None,
    dtype=None,
    name="transformer",
):
    """Encoder and decoder as a functional model; the defaults are the paper's base model.

    `x_0 = drop(sqrt(H) E[source] + PE)`, `x_l = block_l(x_{l-1})` (sections 3.1, 3.4, 3.5);
    `y_0 = drop(sqrt(H) E[target] + PE)`, `y_l = block_l(y_{l-1}, context=x_L)`, each position
    seeing itself and what stands before it; `logits = y_L E^T`. One table E for the source, the
    target and the softmax, filled with `N(0, 1/H)` so that `sqrt(H) E` is of size 1; the kernels
    are filled by Glorot & Bengio's uniform distribution. With `norm_first` the blocks are
    pre-norm, and `LN(x_L)` and `LN(y_L)` follow.

    With V = 37,000 the base model has 63.1 M weights, the big one 214.2 M (the paper's table 3
    says 65 and 213 M).

    Args:
        vocab_size: tokens V, of both languages together.
        num_layers: blocks L of the encoder, and as many of the decoder.
        hidden_size: width H.
        num_heads: attention heads, a divisor of H.
        intermediate_size: width of the feed-forward nets.
        dropout: rate on the embeddings and on each sub-layer's output while training.
        attention_dropout: rate on the attention probabilities.
        activation: of the feed-forward nets.
        norm_first: layer norms before the sub-layers instead of after.
        norm_epsilon: epsilon of the layer norms.
        source_length: static length S, or None for any length.
        target_length: static length T, or None for any length.
        dtype: a Keras dtype policy, e.g. "mixed_bfloat16"; None takes the global one.
        name: name of the model.

    Inputs: dict of int32: `input_word_ids` `[B, S]`, `input_mask` `[B, S]` (1 for real tokens),
    `target_word_ids` `[B, T]`, what the decoder reads: a start token, then the target shifted to
    the right. Padding stands on the right; the target's needs no mask, as what comes later is
    never seen.

    Outputs: dict of `lm_logits` float32 `[B, T, V]` (those at t predict target token t),
    `sequence_output` `[B, T, H]`, `decoder_outputs` (list of L, the last is `sequence_output`),
    `encoder_output` `[B, S, H]`, `encoder_outputs` (list of L, the last is `encoder_output`) and
    `attention` float32 `[B, N, T, S]`, whom the last block of the decoder looks at in the source.

    Raises:
        ValueError: for sizes that don't fit together.
    """
    if num_layers < 1:
        raise ValueError(f"num_layers={num_layers} must be at least 1")
    if num_heads < 1 or hidden_size % num_heads:
        raise ValueError(f"hidden_size={hidden_size} is not a multiple of num_heads={num_heads}")

    inputs = {
        key: keras.Input((length,), dtype="int32", name=key)
        for key, length in (
            ("input_word_ids", source_length),
            ("input_mask", source_length),
            ("target_word_ids", target_length),
        )
    }
    real = ops.not_equal(inputs["input_mask"], 0)  # bool [B, S]
    table = TokenEmbedding(
        vocab_size,
        hidden_size,
        initializer=keras.initializers.RandomNormal(stddev=hidden_size**-0.5),
        dtype=dtype,
        name="token_embedding",
    )
    positions = SinusoidalPositions(dtype=dtype, name="positions")

    def embedded(ids, part):
        tokens = table(ids) * hidden_size**0.5
        return Dropout(dropout, dtype=dtype, name=f"{part}_dropout")(tokens + positions(tokens))

    def stack(x, part, return_scores=False, **call):
        """The output of each of the blocks, and the last one's attention map."""
        outputs, scores = [], None
        for index in range(num_layers):
            block = TransformerBlock(
                num_heads,
                intermediate_size,
                dropout=dropout,
                attention_dropout=attention_dropout,
                activation=activation,
                norm_first=norm_first,
                norm_epsilon=norm_epsilon,
                causal=part == "decoder",
                dtype=dtype,
                name=f"{part}_layer_{index}",
            )
            if return_scores and index == num_layers - 1:
                x, scores = block(x, return_scores=True, **call)
            else:
                x = block(x, **call)
            outputs.append(x)
        if norm_first:
            outputs[-1] = LayerNorm(norm_epsilon, dtype=dtype, name=f"{part}_norm")(x)
        return outputs, scores

    encoder_outputs, _ = stack(embedded(inputs["input_word_ids"], "encoder"), "encoder", mask=real)
    decoder_outputs, scores = stack(
        embedded(inputs["target_word_ids"], "decoder"),
        "decoder",
        return_scores=True,
        context=encoder_outputs[-1],
        context_mask=real,
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
