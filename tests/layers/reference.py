"""The formulas of the layers in float64 numpy, written from the papers with plain loops.

Weights are passed as `weights(layer)`, a dict from path inside the layer to float64 array.
"""

import math

import numpy as np


def weights(layer):
    """`{"attention/qkv/kernel": array, ...}`: every weight of a layer as float64."""
    return {w.path.split("/", 1)[1]: np.asarray(w.numpy(), "float64") for w in layer.weights}


def inside(tree, name):
    """The weights under `name/`, with that prefix taken off."""
    return {k[len(name) + 1 :]: v for k, v in tree.items() if k.startswith(name + "/")}


def randomize(layer, rng, scale=0.5):
    """Gives every weight random numbers: biases of zero and gains of one hide mistakes."""
    for variable in layer.trainable_variables:
        shift = 1.0 if variable.name == "gamma" else 0.0
        variable.assign(shift + scale * rng.standard_normal(variable.shape))


def built(layer, *shapes, seed=0, scale=0.5):
    """The layer with random numbers in every weight, and the generator, which goes on."""
    rng = np.random.default_rng(seed)
    layer.build(*shapes)
    randomize(layer, rng, scale)
    return layer, rng


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(z):
    z = np.asarray(z, "float64")
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def dense(x, w):
    return x @ w["kernel"] + w["bias"]


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "relu": lambda x: np.where(x > 0, x, 0),
    "tanh": np.tanh,
}


def layer_norm(x, w, epsilon):
    x = np.asarray(x, "float64")
    mean = x.sum(-1, keepdims=True) / x.shape[-1]
    variance = ((x - mean) ** 2).sum(-1, keepdims=True) / x.shape[-1]
    return w["gamma"] * (x - mean) / np.sqrt(variance + epsilon) + w["beta"]


def attend(q, k, v, num_heads, visible):
    """Heads joined `[B, T, H]` and probabilities `[B, N, T, S]`, one query at a time.

    `visible(b, t, s)` says whether query t may see key s; a hidden key is left out of the sum.
    """
    (batch, length, hidden), source = q.shape, k.shape[1]
    size = hidden // num_heads
    joined = np.zeros((batch, length, hidden))
    probabilities = np.zeros((batch, num_heads, length, source))
    for b in range(batch):
        for n in range(num_heads):
            head = slice(n * size, (n + 1) * size)
            for t in range(length):
                keys = [s for s in range(source) if visible(b, t, s)]
                scores = np.array([q[b, t, head] @ k[b, s, head] for s in keys]) / math.sqrt(size)
                weight = np.exp(scores - scores.max())
                weight /= weight.sum()
                probabilities[b, n, t, keys] = weight
                joined[b, t, head] = weight @ v[b, keys, head]
    return joined, probabilities


def attention(x, w, num_heads, context=None, mask=None, causal=False):
    """Multi-head attention: output `[B, T, H]` and probabilities `[B, N, T, S]`.

    Queries whose every key is hidden are not defined by the formula; don't ask for them.
    """
    x = np.asarray(x, "float64")
    if context is None:
        q, k, v = np.split(dense(x, inside(w, "qkv")), 3, axis=-1)
    else:
        q = dense(x, inside(w, "query"))
        k, v = np.split(dense(np.asarray(context, "float64"), inside(w, "key_value")), 2, axis=-1)

    def visible(b, t, s):
        return (mask is None or mask[b, s]) and not (causal and s > t)

    joined, probabilities = attend(q, k, v, num_heads, visible)
    return dense(joined, inside(w, "output")), probabilities


def block(x, w, num_heads, mask=None, causal=False, **kind):
    """A Transformer block, dropout off, `[B, T, H]`; `kind` as in `block_and_map`."""
    return block_and_map(x, w, num_heads, mask=mask, causal=causal, **kind)[0]


def block_and_map(
    x, w, num_heads, context=None, context_mask=None, mask=None, causal=True,
    activation="gelu", norm_first=False, epsilon=1e-12,
):  # fmt: skip
    """A block, post-norm or pre-norm, and the map `[B, N, T, S]` of its last attention.

    That is the one to `context`, where there is one.
    """
    x, maps = np.asarray(x, "float64"), []

    def to_itself(y):
        y, scores = attention(y, inside(w, "attention"), num_heads, mask=mask, causal=causal)
        maps.append(scores)
        return y

    def to_context(y):
        y, scores = attention(y, inside(w, "cross_attention"), num_heads, context, context_mask)
        maps.append(scores)
        return y

    def feed_forward(y):
        wide = ACTIVATIONS[activation](dense(y, inside(w, "intermediate")))
        return dense(wide, inside(w, "output"))

    sub_layers = {"attention": to_itself, "cross_attention": to_context, "output": feed_forward}
    if context is None:
        del sub_layers["cross_attention"]
    for name, sub_layer in sub_layers.items():
        norm = inside(w, f"{name}_norm")
        if norm_first:
            x = x + sub_layer(layer_norm(x, norm, epsilon))
        else:
            x = layer_norm(x + sub_layer(x), norm, epsilon)
    return x, maps[-1]


def masked_lm_head(x, positions, w, activation="gelu", epsilon=1e-12):
    """`[B, T, H]` and positions `[B, P]` to `[B, P, H]`."""
    picked = np.stack([[x[b, p] for p in row] for b, row in enumerate(positions)])
    y = ACTIVATIONS[activation](dense(picked.astype("float64"), inside(w, "dense")))
    return layer_norm(y, inside(w, "norm"), epsilon)


def hashed(a, b):
    """The 16-bit numbers of dropout's masks, beside one another on axis 1.

    Both halves of the 32-bit words that MurmurHash3's finalizer makes of `a ^ b`.
    """
    words = a.astype("uint32") ^ b.astype("uint32")
    words = (words ^ words >> 16) * np.uint32(0x85EBCA6B)
    words = (words ^ words >> 13) * np.uint32(0xC2B2AE35)
    words ^= words >> 16
    return np.concatenate([words & 0xFFFF, words >> 16], 1)
