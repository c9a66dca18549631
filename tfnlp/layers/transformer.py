"""One Transformer block: self-attention and a position-wise feed-forward net."""

import keras
from keras import ops

from tfnlp.layers.activations import activation as activation_function
from tfnlp.layers.attention import MultiHeadAttention
from tfnlp.layers.dense import built_dense
from tfnlp.layers.dropout import Dropout
from tfnlp.layers.normalization import LayerNorm


@keras.saving.register_keras_serializable(package="tfnlp")
class TransformerBlock(keras.layers.Layer):
    """Post-norm (Vaswani et al. 2017, BERT, GPT):
    `y = LN(x + drop(attention(x)))`, `z = LN(y + drop(W2 f(W1 y + b1) + b2))`;
    pre-norm (`norm_first=True`, GPT-2):
    `y = x + drop(attention(LN(x)))`, `z = y + drop(W2 f(W1 LN(y) + b1) + b2)`.

    Args:
        num_heads: attention heads.
        intermediate_size: width F of the feed-forward net.
        dropout: rate on the output of both sub-layers.
        attention_dropout: rate on the attention probabilities.
        activation: f, "gelu" (erf), "gelu_tanh", "relu".
        norm_first: pre-norm instead of post-norm.
        norm_epsilon: epsilon of both layer norms.
        causal: position t sees positions <= t only.
        kernel_initializer: Keras initializer of all kernels.

    Call: `inputs` `[B, T, H]`, `mask` bool `[B, T]` (True for real tokens), `cached_keys`,
    `cached_values` and `cache_index` as in `MultiHeadAttention`, `return_scores` for the attention
    map.
    Returns `[B, T, H]` in the compute dtype, and what `MultiHeadAttention` returns beside it.
    """

    def __init__(
        self,
        num_heads,
        intermediate_size,
        dropout=0.1,
        attention_dropout=0.1,
        activation="gelu",
        norm_first=False,
        norm_epsilon=1e-12,
        causal=False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.intermediate_size = intermediate_size
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = activation
        self.norm_first = norm_first
        self.norm_epsilon = norm_epsilon
        self.causal = causal
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True
        self._function = activation_function(activation)

    def build(self, input_shape):
        hidden, policy = input_shape[-1], self.dtype_policy

        def dense(width, units, name):
            return built_dense(width, units, self.kernel_initializer, policy, name)

        self.attention = MultiHeadAttention(
            self.num_heads,
            dropout=self.attention_dropout,
            causal=self.causal,
            kernel_initializer=self.kernel_initializer,
            dtype=policy,
            name="attention",
        )
        self.attention.build(input_shape)
        self.attention_norm = LayerNorm(self.norm_epsilon, dtype=policy, name="attention_norm")
        self.attention_norm.build((None, hidden))
        self.intermediate = dense(hidden, self.intermediate_size, "intermediate")
        self.output_dense = dense(self.intermediate_size, hidden, "output")
        self.output_norm = LayerNorm(self.norm_epsilon, dtype=policy, name="output_norm")
        self.output_norm.build((None, hidden))
        self.attention_output_dropout = Dropout(self.dropout, dtype=policy)
        self.output_dropout = Dropout(self.dropout, dtype=policy)

    def call(
        self,
        inputs,
        mask=None,
        cached_keys=None,
        cached_values=None,
        cache_index=None,
        return_scores=False,
        training=False,
    ):
        x = ops.cast(inputs, self.compute_dtype)
        attended = self.attention(
            self.attention_norm(x) if self.norm_first else x,
            mask=mask,
            cached_keys=cached_keys,
            cached_values=cached_values,
            cache_index=cache_index,
            return_scores=return_scores,
            training=training,
        )
        attended, extras = (
            (attended[0], attended[1:]) if isinstance(attended, tuple) else (attended, ())
        )
        y = x + self.attention_output_dropout(attended, training=training)
        if not self.norm_first:
            y = self.attention_norm(y)

        # [B*T, H]: plain 2-D products, which the CPU library fuses with bias and activation.
        flat = ops.reshape(y, (-1, y.shape[-1]))
        wide = self.intermediate(self.output_norm(flat) if self.norm_first else flat)
        wide = self._function(wide, training)
        z = flat + self.output_dropout(self.output_dense(wide), training=training)
        if not self.norm_first:
            z = self.output_norm(z)
        length = inputs.shape[1] or ops.shape(inputs)[1]
        z = ops.reshape(z, (-1, length, inputs.shape[-1]))  # [B, T, H]
        return (z, *extras) if extras else z

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        cached_keys=None,
        cached_values=None,
        cache_index=None,
        return_scores=False,
        training=False,
    ):
        return self.attention.compute_output_spec(
            inputs,
            cached_keys=cached_keys,
            cached_values=cached_values,
            cache_index=cache_index,
            return_scores=return_scores,
        )

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "intermediate_size": self.intermediate_size,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation": self.activation,
            "norm_first": self.norm_first,
            "norm_epsilon": self.norm_epsilon,
            "causal": self.causal,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
