"""A tiny GPT, and the choice of tokens by its logits in numpy."""

import numpy as np
import tensorflow as tf

from tests.layers import reference
from tfnlp.models import gpt, gpt_pretrainer

V, L, H, POSITIONS = 19, 2, 16, 16
SMALL = dict(vocab_size=V, num_layers=L, hidden_size=H, num_heads=4, intermediate_size=24)
SMALL.update(max_positions=POSITIONS)


def small(seed=0, scale=0.3, **arguments):
    """A pretrainer with random numbers in every weight."""
    model = gpt_pretrainer(gpt(**{**SMALL, **arguments}))
    reference.randomize(model, np.random.default_rng(seed), scale)
    return model


def talkative(seed=0, **arguments):
    """A model that does not say the same again and again, as one with a tied table will.

    What the blocks add outweighs the token itself, and their biases are small.
    """
    model = small(seed, 0.8, **arguments)
    for variable in model.trainable_variables:
        if variable.path.endswith(("bias", "beta")):
            variable.assign(0.1 * variable)
    return model


def sequences(lengths, seed=0, vocab_size=V):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, vocab_size, n).tolist() for n in lengths]


def padded(rows, length=None, left=False, noise=0):
    """Lists of ids to `input_word_ids` and `input_mask`, int32 `[B, T]`."""
    length = length or max(map(len, rows))
    ids = np.random.default_rng(9).integers(0, noise + 1, (len(rows), length))
    mask = np.zeros((len(rows), length))
    for row, (i, m) in zip(rows, zip(ids, mask, strict=True), strict=True):
        place = slice(length - len(row), None) if left else slice(len(row))
        i[place], m[place] = row, 1
    return {"input_word_ids": ids.astype("int32"), "input_mask": mask.astype("int32")}


def real(value, inputs):
    """The real places of `[B, T, ...]`, one array a row."""
    return [v[m > 0] for v, m in zip(np.asarray(value), inputs["input_mask"], strict=True)]


def next_logits(model, length=POSITIONS):
    """A function of a list of ids: the next token's logits `[V]`, the whole model each time."""
    run = tf.function(lambda inputs: model(inputs)["lm_logits"])

    def logits(ids):
        return run(padded([ids], length))[0, len(ids) - 1].numpy().astype("float64")

    return logits


def threefry(key, counter):
    """Threefry-2x32-20 in Python's integers."""
    size = 2**32
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (counter[0] + key[0]) % size, (counter[1] + key[1]) % size
    for r in range(20):
        x = (x + y) % size
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[r % 8]
        y = ((y << turn | y >> (32 - turn)) % size) ^ x
        if r % 4 == 3:
            block = r // 4 + 1
            x = (x + keys[block % 3]) % size
            y = (y + keys[(block + 1) % 3] + block) % size
    return x, y


def uniform(seed, step):
    return (threefry((seed % 2**32, 0), (step, 0))[0] >> 8) * 2.0**-24


def sample(logits, u, temperature=1.0, top_k=0, top_p=1.0):
    """The token that `u` stands for, and the list of those that could be drawn."""
    p = np.exp(reference.log_softmax(np.asarray(logits, "float64") / temperature))
    order = np.arange(len(p))
    if 0 < top_k < len(p) or top_p < 1:
        order = np.argsort(-p, kind="stable")[: top_k or len(p)]
        kept = p[order] / p[order].sum()
        count = 1 + int((np.cumsum(kept) < top_p).sum())
        order = order[:count]
    sums = np.cumsum(p[order])
    place = int(np.searchsorted(sums, u * sums[-1], side="right"))
    return int(order[place]), order.tolist()
