"""A tiny BERT, a batch for it, and its formula in float64 numpy."""

import numpy as np

from tests.layers import reference

B, T, V, P = 4, 9, 23, 3
SIZE = dict(vocab_size=V, num_layers=3, hidden_size=16, num_heads=4, intermediate_size=24)
SMALL = dict(**SIZE, max_positions=12)
LENGTHS = (9, 5, 1, 7)
CLOSE = dict(rtol=1e-4, atol=1e-4)


def batch(rng, positions=False):
    """Inputs of `B` sequences, the real tokens first as a tokenizer packs them."""
    mask = np.arange(T) < np.array(LENGTHS)[:, None]
    inputs = {
        "input_word_ids": np.where(mask, rng.integers(1, V, (B, T)), 0),
        "input_mask": mask,
        "input_type_ids": np.where(mask & (np.arange(T) > 3), 1, 0),
    }
    if positions:
        inputs["masked_lm_positions"] = rng.integers(0, LENGTHS, (P, B)).T
    return {name: value.astype("int32") for name, value in inputs.items()}


def randomized(model, rng, scale=0.3):
    reference.randomize(model, rng, scale)
    return model


def weights(model):
    return {v.path: np.asarray(v.numpy(), "float64") for v in model.weights}


def masked_lm_logits(hidden, inputs, model, activation="gelu", epsilon=1e-12):
    """`E head(x_L[positions]) + b`."""
    w = weights(model)
    head = reference.inside(w, "masked_lm_head")
    hidden = np.asarray(hidden, "float64")
    made = reference.masked_lm_head(
        hidden, inputs["masked_lm_positions"], head, activation, epsilon
    )
    return made @ w["token_embedding/embeddings"].T + w["masked_lm_bias/bias"]


def bert_reference(
    inputs, model, activation="gelu", epsilon=1e-12, num_heads=4, positions=None, prefix=""
):
    """`x_0 = LN(E[ids] + P[positions] + S[types])`, `x_l = block_l(x_{l-1})`, and the pooler.

    Where there is a projection `x_0` is projected; it and the blocks have names with the prefix.
    """
    w = weights(model)

    def part(name):
        return reference.inside(w, name)

    ids, types = inputs["input_word_ids"], inputs["input_type_ids"]
    if positions is None:
        positions = slice(ids.shape[1])
    x = (
        part("token_embedding")["embeddings"][ids]
        + part("position_embedding")["embeddings"][positions]
    )
    if part("segment_embedding"):
        x = x + part("segment_embedding")["embeddings"][types]
    x = reference.layer_norm(x, part("embedding_norm"), epsilon)
    if projection := part(f"{prefix}embedding_projection"):
        x = reference.dense(x, projection)
    layers, mask = [x], inputs["input_mask"].astype(bool)
    while block := part(f"{prefix}layer_{len(layers) - 1}"):
        layers.append(
            reference.block(
                layers[-1], block, num_heads, mask, activation=activation, epsilon=epsilon
            )
        )
    pooled = None
    if part("pooler"):
        pooled = np.tanh(reference.dense(layers[-1][:, 0], part("pooler/dense")))
    return layers, pooled
