"""Tasks on frozen features: a biLSTM above the layers of an encoder that stays as it is.

The feature-based way of Peters et al. 2018 (section 3.3) and Devlin et al. 2019 (section 5.3). The
encoder's layers come in as numbers, computed once, so that what is learnt is small and quick.
"""

import keras
from keras import ops

from tfnlp.layers import Dropout, ScalarMix
from tfnlp.layers.attention import MASKED
from tfnlp.models.task_heads import (
    check_output,
    fold,
    sequence_outputs,
    span_outputs,
    tag_outputs,
    unfold,
)

# The rows of table 7 of Devlin et al. 2019: the part of [embeddings, layer 1, ..., layer L] that is
# taken, and how its layers become one.
FEATURES = {
    "embeddings": (slice(0, 1), "weighted"),
    "second-to-last": (slice(-2, -1), "weighted"),
    "last": (slice(-1, None), "weighted"),
    "sum-last-four": (slice(-4, None), "weighted"),
    "concat-last-four": (slice(-4, None), "concat"),
    "sum-all": (slice(1, None), "weighted"),
}


def select_layers(choice, num_layers, embeddings=False):
    """Which layers of an encoder are the features, and how `feature_task` is to mix them.

    Args:
        choice: a name of `FEATURES`.
        num_layers: L, the encoder's layers above its embeddings.
        embeddings: "sum-all" includes the embeddings, as for ELMo (Peters et al. 2018, eq. 1).

    Returns:
        list of indices into `[embedding_output, *encoder_outputs]`; "weighted" or "concat".

    Raises:
        ValueError: for an unknown choice, or one that needs more layers than there are.
    """
    if choice not in FEATURES:
        raise ValueError(f"features={choice!r} must be one of {', '.join(map(repr, FEATURES))}")
    part, mix = FEATURES[choice]
    if part.start < 0 and num_layers < -part.start:
        raise ValueError(
            f"features={choice!r} needs {-part.start} layers, but the encoder has {num_layers}; "
            "choose another, such as 'sum-all'"
        )
    if choice == "sum-all" and embeddings:
        part = slice(0, None)
    return list(range(num_layers + 1))[part], mix


def feature_task(
    output,
    num_layers,
    size,
    *,
    num_classes=None,
    sequences=1,
    mix="weighted",
    pairs=False,
    vocab_size=None,
    embedding_size=100,
    units=200,
    lstm_layers=1,
    dropout=0.5,
    lm_dropout=0.5,
    mix_l2=0.001,
    seq_length=None,
    name="feature_task",
):
    """A biLSTM on frozen features, and a linear layer on what it says.

    `x_t = [drop(E[id_t]); drop(mix(lm_layers_t))]`, then with `pairs` `x_t = align(x)_t` (see
    `aligned`), `h = drop(biLSTM(x))`.

    "class": `W v + b`, "score": the same with one number, "choice": `w . v_c` for each sequence c,
    with `v = [max_t h_t; mean_t h_t]` over the real tokens. With `pairs` the same is taken of each
    segment, p and q, and `v = relu(U drop([p; q; |p - q|; p * q]) + d)` (Conneau et al. 2017,
    section 3.1). "tag": `W h_t + b`; "span": `s . h_t` and `e . h'_t` with `h' = biLSTM(h)`.

    Args:
        output: "class", "score", "choice", "tag" or "span".
        num_layers: layers L in `lm_layers`.
        size: their width D.
        num_classes: K, for "class" and "tag" alone.
        sequences: C, of an example; more than 1 for "choice" alone.
        mix: "weighted", `gamma sum_j softmax(w)_j layer_j` (Peters et al., eq. 1; of one layer
            the layer itself), or "concat" of the L layers.
        pairs: the sequences hold two segments, which are told apart by `input_type_ids`.
        vocab_size: rows of E; None: no word embeddings beside the features.
        embedding_size: columns of E.
        units: width of the LSTMs in each direction, and of U.
        lstm_layers: biLSTMs, one above the other.
        dropout: rate on E[id], on each biLSTM's output and before U.
        lm_dropout: rate on the mixed features.
        mix_l2: lambda of `lambda |w|^2`, which draws the mix towards a mean of the layers.
        seq_length: static length T, or None for any length.
        name: name of the model.

    Inputs: dict of float32 `lm_layers` `[B, T, L, D]` (zeros at padding and at special tokens);
    int32 `[B, T]` `input_mask` (1 at real and special tokens), with `pairs` `input_type_ids`
    (0 or 1: which segment) and with `vocab_size` `word_ids` (0: padding or special). For "choice"
    all have one axis more: `[B, C, T, ...]`.

    Outputs: dict of float32 `class_logits` `[B, K]`, `score` `[B]`, `choice_logits` `[B, C]`,
    `tag_logits` `[B, T, K]`, or `start_logits` and `end_logits` `[B, T]`, -1e9 at padding.

    Raises:
        ValueError: for an unknown `output` or `mix`, or sizes that don't fit.
    """
    check_output(output, num_classes, sequences)
    sizes = dict(num_layers=num_layers, size=size, units=units, lstm_layers=lstm_layers)
    if vocab_size is not None:
        sizes.update(vocab_size=vocab_size, embedding_size=embedding_size)
    check_sizes(**sizes)
    if mix not in ("weighted", "concat"):
        raise ValueError(f'mix={mix!r} must be "weighted" or "concat"')

    shape = (sequences, seq_length) if output == "choice" else (seq_length,)
    names = ["input_mask"] + ["input_type_ids"] * pairs + ["word_ids"] * (vocab_size is not None)
    inputs = {key: keras.Input(shape, dtype="int32", name=key) for key in names}
    inputs["lm_layers"] = keras.Input(
        (*shape, num_layers, size), dtype="float32", name="lm_layers"
    )
    flat = inputs
    if output == "choice":
        flat = {key: fold(x, sequences) for key, x in inputs.items()}  # [C*B, T, ...]
    real = ops.not_equal(flat["input_mask"], 0)  # bool [B, T]

    x = mixed(flat["lm_layers"], mix, lm_dropout, mix_l2, "mix")  # [B, T, D or L*D]
    if vocab_size is not None:
        words = word_vectors(flat["word_ids"], vocab_size, embedding_size, dropout)
        x = ops.concatenate([words, x], axis=-1)
    if pairs:
        second = ops.not_equal(flat["input_type_ids"], 0)
        segments = [ops.logical_and(real, s) for s in (ops.logical_not(second), second)]
        x = aligned(x, *segments, units)  # [B, T, 2*units]
    h = bilstms(x, real, units, lstm_layers, dropout)  # [B, T, 2*units]

    initializer = keras.initializers.GlorotUniform()
    if output == "tag":
        outputs = tag_outputs(h, num_classes, initializer)
    elif output == "span":
        above = bilstms(h, real, units, 1, dropout, "end_rnn")
        outputs = span_outputs(h, above, real, initializer)
    else:
        if not pairs:
            v = pooled(h, real)  # [B, 4*units]
        else:
            p, q = (pooled(h, segment) for segment in segments)
            v = ops.concatenate([p, q, ops.abs(p - q), p * q], axis=-1)  # [B, 16*units]
            v = Dropout(dropout, name="pair_dropout")(v)
            v = keras.layers.Dense(units, activation="relu", name="pair")(v)
        outputs = sequence_outputs(unfold(v, sequences), output, num_classes, initializer)
    return keras.Model(inputs, outputs, name=name)


def check_sizes(**sizes):
    """Raises a ValueError for the first that is below 1."""
    for argument, value in sizes.items():
        if value < 1:
            raise ValueError(f"{argument}={value} must be at least 1")


def mixed(lm_layers, mix, dropout, l2, name):
    """The layers `[B, T, L, D]` as one `[B, T, D]`, or `[B, T, L*D]` for "concat", with dropout."""
    layers = ops.unstack(lm_layers, axis=2)  # L of [B, T, D]
    if len(layers) == 1:
        x = layers[0]
    elif mix == "concat":
        x = ops.concatenate(layers, axis=-1)
    else:
        x = ScalarMix(len(layers), l2=l2, name=name)(layers)
    return Dropout(dropout, name=f"{name}_dropout")(x)


def word_vectors(word_ids, vocab_size, embedding_size, dropout):
    """`drop(E[id])` `[B, T, embedding_size]`."""
    table = keras.layers.Embedding(vocab_size, embedding_size, name="word_embedding")
    return Dropout(dropout, name="word_dropout")(table(word_ids))


def bilstms(x, real, units, count, dropout, name="rnn"):
    """`count` biLSTMs above each other, each with dropout on its output `[B, T, 2*units]`."""
    for index in range(count):
        lstm = keras.layers.LSTM(units, return_sequences=True, name="lstm")
        x = keras.layers.Bidirectional(lstm, name=f"{name}_{index}")(x, mask=real)
        x = Dropout(dropout, name=f"{name}_{index}_dropout")(x)
    return x


def pooled(h, real):
    """`[max_t h_t; mean_t h_t]` over the real t: `[B, 2F]`; zeros where there is none."""
    real = ops.cast(real, h.dtype)[..., None]  # [B, T, 1]
    largest = ops.max(h * real - (1.0 - real) * 1e4, axis=1)  # far below any h
    largest = largest * ops.max(real, axis=1)
    mean = ops.sum(h * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)
    return ops.concatenate([largest, mean], axis=-1)


def aligned(x, first, second, units):
    """`relu(V [x_t; a_t; x_t * a_t] + c)`, a_t what the other segment has that is like token t.

    `a_t = sum_s p_ts x_s`, s over the real tokens of the segment that t is not in, with
    `p_t = softmax_s(f(x_t) . f(x_s) / sqrt(units))`, `f(x) = relu(W x + b)`: the soft alignment of
    Parikh et al. 2016 (section 3.1) and Chen et al. 2017a (ESIM, 3.2), the aligned question
    embedding of Chen et al. 2017b (DrQA, 3.2).

    Args:
        x: `[B, T, D]`.
        first, second: bool `[B, T]`, the real tokens of each segment.
        units: width of f; that of what is returned is twice as much.

    Returns:
        `[B, T, 2*units]`. Where the other segment is empty, a is 0.
    """
    f = keras.layers.Dense(units, activation="relu", name="alignment_projection")(x)
    scores = ops.cast(ops.matmul(f, ops.swapaxes(f, 1, 2)), "float32") * units**-0.5  # [B, T, T]
    # What t may look at: the first segment looks at the second, all else at the first.
    first, second = (ops.cast(s, "float32") for s in (first, second))
    seen = first[:, :, None] * second[:, None, :] + (1.0 - first)[:, :, None] * first[:, None, :]
    p = ops.softmax(scores + (1.0 - seen) * MASKED, axis=-1) * seen
    a = ops.matmul(ops.cast(p, x.dtype), x)  # [B, T, D]
    together = ops.concatenate([x, a, x * a], axis=-1)  # [B, T, 3D]
    return keras.layers.Dense(2 * units, activation="relu", name="alignment")(together)
