"""A cell of `benchmarks.engines`: the same pretraining step in plain Flax and optax.

It needs no tfnlp: only jax, flax and optax.
"""

import functools
import json
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from benchmarks.cases import VOCAB, batch_of
from benchmarks.engines import take_turns

RATE = 0.1  # of dropout
normal = nn.initializers.truncated_normal(0.02)


class Block(nn.Module):
    """A post-norm Transformer block."""

    heads: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x, mask):
        hidden = x.shape[-1]
        dense = functools.partial(nn.Dense, dtype=self.dtype, kernel_init=normal)
        norm = functools.partial(nn.LayerNorm, epsilon=1e-12, dtype=self.dtype)
        drop = functools.partial(nn.Dropout, RATE, deterministic=False)
        attended = nn.MultiHeadDotProductAttention(
            self.heads, dtype=self.dtype, kernel_init=normal, dropout_rate=RATE,
            broadcast_dropout=False, deterministic=False, force_fp32_for_softmax=True,
        )(x, mask=mask)  # fmt: skip
        x = norm()(x + drop()(attended))
        wide = nn.gelu(dense(4 * hidden)(x), approximate=False)
        return norm()(x + drop()(dense(hidden)(wide)))


class Bert(nn.Module):
    """The encoder with both heads."""

    layers: int
    hidden: int
    heads: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, batch):
        norm = functools.partial(nn.LayerNorm, epsilon=1e-12, dtype=self.dtype)
        dense = functools.partial(nn.Dense, dtype=self.dtype, kernel_init=normal)
        embed = functools.partial(
            nn.Embed, features=self.hidden, dtype=self.dtype, embedding_init=normal
        )
        ids = batch["input_word_ids"]
        table = embed(VOCAB["bert"], name="tokens")
        x = table(ids) + embed(2, name="segments")(batch["input_type_ids"])
        x = x + embed(512, name="positions")(jnp.arange(ids.shape[1])[None])
        x = nn.Dropout(RATE, deterministic=False)(norm()(x))
        mask = batch["input_mask"][:, None, None, :] > 0
        for _ in range(self.layers):
            x = Block(self.heads, self.dtype)(x, mask)
        pooled = nn.tanh(dense(self.hidden)(x[:, 0]))
        pair = nn.Dense(2, kernel_init=normal)(pooled.astype("float32"))
        picked = jnp.take_along_axis(x, batch["masked_lm_positions"][..., None], axis=1)
        picked = norm()(nn.gelu(dense(self.hidden)(picked), approximate=False))
        bias = self.param("bias", nn.initializers.zeros, (VOCAB["bert"],))
        return table.attend(picked).astype("float32") + bias, pair


def main():
    case = json.loads(sys.argv[1])
    jax.config.update("jax_default_prng_impl", case["prng"])
    sizes = case["layers"], case["hidden"], case["heads"]
    model = Bert(*sizes, dtype=jnp.dtype(case["dtype"]))
    batch = batch_of(case)
    key = jax.random.key(0)
    params = jax.jit(model.init)({"params": key, "dropout": key}, batch)["params"]
    decayed = jax.tree.map(lambda x: x.ndim > 1, params)
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adamw(1e-4, weight_decay=0.01, mask=decayed)
    )

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train(params, state, batch, key, number):
        def loss_of(params):
            rngs = {"dropout": jax.random.fold_in(key, number)}
            masked, pair = model.apply({"params": params}, batch, rngs=rngs)
            losses = optax.softmax_cross_entropy_with_integer_labels
            weights = batch["masked_lm_weights"]
            lm = (losses(masked, batch["masked_lm_ids"]) * weights).sum() / weights.sum()
            return lm + losses(pair, batch["next_sentence_labels"]).mean()

        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss

    state, number = jax.jit(optimizer.init)(params), 0

    def step():
        nonlocal params, state, number
        params, state, loss = train(params, state, batch, key, number)
        number += 1
        return float(loss)

    take_turns(case, step)


if __name__ == "__main__":
    main()
