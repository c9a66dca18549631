"""A tiny Transformer, and its formula in float64 numpy, a pair at a time and without padding."""

import numpy as np

from tests.layers import reference
from tests.layers.embeddings_test import sinusoid
from tfnlp.models import transformer

V, L, H, HEADS, START, STOP = 17, 2, 12, 3, 1, 2
SMALL = dict(vocab_size=V, num_layers=L, hidden_size=H, num_heads=HEADS, intermediate_size=20)
CLOSE = dict(rtol=1e-4, atol=1e-4)


def small(seed=0, scale=0.3, **arguments):
    """A model with random numbers in every weight."""
    model = transformer(**{**SMALL, **arguments})
    reference.randomize(model, np.random.default_rng(seed), scale)
    return model


def talkative(seed=0, **arguments):
    """A model that does not say the same again and again, as one with a tied table will.

    What the blocks add outweighs the token itself, and their biases are small.
    """
    model = small(seed, 0.8, norm_first=True, **arguments)
    for variable in model.trainable_variables:
        if variable.path.endswith(("bias", "beta")):
            variable.assign(0.1 * variable)
        elif variable.path.endswith("embeddings"):
            variable.assign(0.4 * variable)
    return model


def pairs(lengths, seed=0, vocab_size=V):
    """Sources and what the decoder reads for each, lists of ids."""
    rng = np.random.default_rng(seed)
    sources = [rng.integers(3, vocab_size, n).tolist() for n, _ in lengths]
    targets = [[START, *rng.integers(3, vocab_size, n - 1).tolist()] for _, n in lengths]
    return sources, targets


def padded(sources, targets, more=(0, 0), noise=0):
    """The model's inputs, with ids below `noise + 1` on the padding."""
    rng = np.random.default_rng(9)
    batch = {}
    for name, rows, extra in zip(("input", "target"), (sources, targets), more, strict=True):
        length = max(map(len, rows)) + extra
        ids = rng.integers(0, noise + 1, (len(rows), length))
        mask = np.zeros((len(rows), length))
        for row, i, m in zip(rows, ids, mask, strict=True):
            i[: len(row)], m[: len(row)] = row, 1
        batch[f"{name}_word_ids"] = ids.astype("int32")
        if name == "input":
            batch["input_mask"] = mask.astype("int32")
    return batch


def transformer_reference(source, target, model, norm_first=False, activation="relu", epsilon=1e-6):
    """Outputs of one pair, by the names that the model gives them."""
    w = {v.path: np.asarray(v.numpy(), "float64") for v in model.weights}
    table = w["token_embedding/embeddings"]
    kind = dict(activation=activation, norm_first=norm_first, epsilon=epsilon)

    def embedded(ids):
        return (table[ids] * np.sqrt(H) + sinusoid(range(len(ids)), H))[None]

    def normed(x, part):
        return reference.layer_norm(x, reference.inside(w, f"{part}_norm"), epsilon)

    encoder, x = [], embedded(source)
    for index in range(L):
        x = reference.block(x, reference.inside(w, f"encoder_layer_{index}"), HEADS, **kind)
        encoder.append(x)
    if norm_first:
        encoder[-1] = normed(x, "encoder")
    decoder, y = [], embedded(target)
    for index in range(L):
        part = reference.inside(w, f"decoder_layer_{index}")
        y, scores = reference.block_and_map(y, part, HEADS, encoder[-1], **kind)
        decoder.append(y)
    if norm_first:
        decoder[-1] = normed(y, "decoder")
    return {
        "encoder_outputs": [x[0] for x in encoder],
        "encoder_output": encoder[-1][0],
        "decoder_outputs": [x[0] for x in decoder],
        "sequence_output": decoder[-1][0],
        "lm_logits": decoder[-1][0] @ table.T,
        "attention": scores[0],
    }
