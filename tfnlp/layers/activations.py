"""Activations by the names that the papers and their checkpoints use."""

from keras import ops


def gelu(x):
    """Exact GELU, `x * Phi(x) = x/2 * (1 + erf(x / sqrt 2))` (Hendrycks & Gimpel 2016, eq. 1).

    BERT's released checkpoints were trained with this form.
    """
    return ops.gelu(x, approximate=False)


def gelu_tanh(x):
    """tanh GELU, `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))` (ibid., section 2).

    GPT, GPT-2 and the first TensorFlow BERT code use this form.
    """
    return ops.gelu(x, approximate=True)


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": gelu_tanh, "relu": ops.relu, "tanh": ops.tanh}


def activation(name):
    """The function called `name`: one of "gelu" (erf), "gelu_tanh", "relu", "tanh".

    Raises:
        ValueError: for any other name.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation={name!r} is unknown; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]
