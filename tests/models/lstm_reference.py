"""A biLSTM in float64 numpy, one sequence at a time and without padding."""

import numpy as np

from tests.layers.reference import sigmoid


def lstm(x, kernel, recurrent, bias):
    """Outputs `[T, U]`; Keras's gates are i, f, c, o."""
    c = h = np.zeros(recurrent.shape[0])
    outputs = []
    for row in x:
        i, f, g, o = np.split(row @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def bilstm(x, get):
    """`[T, 2U]`; `get(way, name)` is a weight, with way "forward" or "backward"."""
    forward, backward = (
        [get(way, name) for name in ("kernel", "recurrent_kernel", "bias")]
        for way in ("forward", "backward")
    )
    return np.concatenate([lstm(x, *forward), lstm(x[::-1], *backward)[::-1]], -1)
