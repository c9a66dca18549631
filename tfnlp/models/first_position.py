"""The output of an encoder at its first position alone, for prediction.

A classifier reads `[CLS]` alone. The last block then needs the keys and values of all positions,
but queries, attention and the feed-forward net of the first one only: of twelve blocks as good as
one is saved.
"""

import keras
from keras import ops

from tfnlp.layers import RelativePositionBias, TransformerBlock
from tfnlp.layers.base import Shape, Tensor


class _BlockAtFirst(keras.layers.Layer):
    """`block(inputs, mask)[:, :1]` of a post-norm `TransformerBlock`, without dropout.

    Call: `[B, T, H]`, mask bool `[B, T]`, the block's `position_bias` or None, to `[B, 1, H]`.
    """

    def __init__(self, block: TransformerBlock) -> None:
        super().__init__(dtype=block.dtype_policy, name=f"{block.name}_at_first")
        self.block = block
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        """Make no weights: they are those of the block."""

    def call(self, inputs: Tensor, real: Tensor, position_bias: Tensor | None = None) -> Tensor:
        block, attention = self.block, self.block.attention
        x = ops.cast(inputs, self.compute_dtype)
        kernel = ops.convert_to_tensor(attention.qkv.kernel)  # [H, 3H]
        bias = ops.convert_to_tensor(attention.qkv.bias)
        if attention.qkv.update is not None:
            kernel = kernel + ops.cast(attention.qkv.update.matrix(), kernel.dtype)
        heads, size, hidden = attention.num_heads, attention.head_size, attention.hidden_size
        length = x.shape[1] or ops.shape(x)[1]

        first = x[:, 0]  # [B, H]
        q = ops.add(ops.matmul(first, kernel[:, :hidden]), bias[:hidden])
        q = ops.reshape(q * size**-0.5, (-1, heads, 1, size))  # [B, N, 1, D]
        flat = ops.reshape(x, (-1, hidden))  # [B*T, H]
        kv = ops.add(ops.matmul(flat, kernel[:, hidden:]), bias[hidden:])
        kv = ops.reshape(kv, (-1, length, 2, heads, size))
        k, v = ops.unstack(ops.transpose(kv, (2, 0, 3, 1, 4)), num=2, axis=0)  # [B, N, T, D]
        scores = ops.cast(ops.matmul(q, ops.swapaxes(k, -1, -2)), "float32")  # [B, N, 1, T]
        if position_bias is not None:
            scores = scores + ops.cast(position_bias[:, :, :1], "float32")
        scores = ops.where(real[:, None, None, :], scores, -1e9)
        found = ops.matmul(ops.cast(ops.softmax(scores, axis=-1), self.compute_dtype), v)
        attended = attention.output_dense(ops.reshape(found, (-1, hidden)))  # [B, H]

        y = block.attention_norm(first + attended)
        z = block.output_norm(y + block.output_dense(block._function(block.intermediate(y))))
        return ops.expand_dims(z, 1)

    def compute_output_spec(
        self, inputs: Tensor, real: Tensor, position_bias: Tensor | None = None
    ) -> keras.KerasTensor:
        shape = (inputs.shape[0], 1, inputs.shape[2])
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


def encoder_at_first(encoder: keras.Model) -> keras.Model | None:
    """Return a model of the same weights whose `sequence_output` is `[B, 1, H]`.

    Args:
        encoder: from `tfnlp.models.bert` or one with its inputs and outputs.

    Returns:
        a model for prediction, with `pooled_output` if the encoder has it; None for an encoder
        whose last block can't be computed in part.
    """
    blocks = [layer for layer in encoder.layers if isinstance(layer, TransformerBlock)]
    states = encoder.output.get("encoder_outputs", ())
    plain = blocks and not (blocks[-1].norm_first or blocks[-1].causal or blocks[-1].cross)
    if len(states) < 2 or not plain or states[-1] is not encoder.output["sequence_output"]:
        return None
    real = ops.not_equal(encoder.input["input_mask"], 0)
    last, bias = _BlockAtFirst(blocks[-1]), position_bias(encoder)
    added = {} if bias is None else {"position_bias": bias.output}
    outputs = {"sequence_output": last(states[-2], real, **added)}
    if "pooled_output" in encoder.output:
        outputs["pooled_output"] = encoder.get_layer("pooler")(outputs["sequence_output"])
    return keras.Model(encoder.input, outputs, name=encoder.name)


def position_bias(encoder: keras.Model) -> RelativePositionBias | None:
    """Return the layer whose outputs the blocks of an encoder add to their scores, or None."""
    layers = (layer for layer in encoder.layers if isinstance(layer, RelativePositionBias))
    return next(layers, None)


def for_prediction(model: keras.Model) -> keras.Model:
    """Return a model with the same weights and outputs that predicts faster, or `model`."""
    make = getattr(model, "for_prediction", None)
    return model if make is None else make()
