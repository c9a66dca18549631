"""Tasks on frozen features: a biLSTM on the layers of an encoder that is not trained.

The feature-based approach of Peters et al. 2018 (section 3.3) and Devlin et al. 2019 (section
5.3). The encoder's layers are inputs, computed once, so that the trained model is small and fast.
"""

import keras
from keras import ops

from tfnlp.layers import Dropout, ScalarMix
from tfnlp.layers.base import Tensor, check_positive
from tfnlp.layers.kernels.attention import MASKED
from tfnlp.models.task_heads import fold, head_of, unfold

# The rows of table 7 of Devlin et al. 2019: which of [embeddings, layer 1, ..., layer L] are used,
# and how they are mixed.
FEATURES = {
    "embeddings": (slice(0, 1), "weighted"),
    "second-to-last": (slice(-2, -1), "weighted"),
    "last": (slice(-1, None), "weighted"),
    "sum-last-four": (slice(-4, None), "weighted"),
    "concat-last-four": (slice(-4, None), "concat"),
    "sum-all": (slice(1, None), "weighted"),
}
WORDS_ALONE = "words"  # no layers: the words of the task alone


def select_layers(choice: str, num_layers: int, embeddings: bool = False) -> tuple[list[int], str]:
    """Return which layers of an encoder are the features, and how `feature_task` mixes them.

    Args:
        choice: a name of `FEATURES`, or `WORDS_ALONE` for no layers.
        num_layers: L, the encoder's layers above its embeddings.
        embeddings: "sum-all" includes the embeddings, as for ELMo (Peters et al. 2018, eq. 1).

    Returns:
        list of indices into `[embedding_output, *encoder_outputs]`; "weighted" or "concat".

    Raises:
        ValueError: for an unknown choice, or one that needs more layers than there are.
    """
    if choice == WORDS_ALONE:
        return [], "weighted"
    if choice not in FEATURES:
        raise ValueError(f"features={choice!r} must be one of {', '.join(map(repr, FEATURES))}")
    part, mix = FEATURES[choice]
    if choice == "sum-all" and embeddings:
        part = slice(0, None)
    if num_layers < abs(part.start):
        raise ValueError(
            f"features={choice!r} needs {abs(part.start)} layers, but the encoder has "
            f"{num_layers}; choose another, such as 'sum-all'"
        )
    return list(range(num_layers + 1))[part], mix


def feature_task(
    output: str,
    num_layers: int,
    size: int,
    *,
    num_classes: int | None = None,
    sequences: int = 1,
    mix: str = "weighted",
    pairs: bool = False,
    vocab_size: int | None = None,
    embedding_size: int = 100,
    units: int = 200,
    lstm_layers: int = 1,
    dropout: float = 0.5,
    lm_dropout: float = 0.5,
    mix_l2: float = 0.001,
    seq_length: int | None = None,
    crf: float = 0.0,
    predicate_size: int = 0,
    window: int | None = None,
    width: int | None = None,
    name: str = "feature_task",
) -> keras.Model:
    """Return a biLSTM on frozen features with a linear layer on its output.

    `x_t = [drop(E[id_t]); drop(mix(lm_layers_t))]`, then with `pairs` `x_t = align(x)_t` (see
    `aligned`), `h = drop(biLSTM(x))`.

    "class" and "label": `W v + b`, "score": the same with one number, "choice": `w . v_c` for each
    sequence c, with `v = [max_t h_t; mean_t h_t]` over the real tokens. With `pairs` the same is
    taken of each segment, p and q, and `v = relu(U drop([p; q; |p - q|; p * q]) + d)` (Conneau et
    al. 2017, section 3.1). "tag": `W h_t + b`; "span": `s . h_t` and `e . h'_t` with
    `h' = biLSTM(h)`; "mention": `tfnlp.models.Coreference` on the words of a document, with a
    biLSTM on each of its windows.

    Args:
        output: "class", "label", "score", "choice", "tag", "span" or "mention".
        num_layers: layers L in `lm_layers`; 0: there is no such input, only word embeddings.
        size: their width D.
        num_classes: K, for "class", "label" and "tag" alone.
        sequences: C, of an example; more than 1 for "choice" alone.
        mix: "weighted", `gamma sum_j softmax(w)_j layer_j` (Peters et al., eq. 1; of one layer
            the layer itself), or "concat" of the L layers.
        pairs: the sequences hold two segments, distinguished by `input_type_ids`.
        vocab_size: rows of E; None: no word embeddings beside the features.
        embedding_size: columns of E.
        units: width of the LSTMs in each direction, and of U.
        lstm_layers: biLSTM layers.
        dropout: rate on E[id], on each biLSTM's output and before U.
        lm_dropout: rate on the mixed features.
        mix_l2: lambda of `lambda |w|^2`, which pulls the mix towards the mean of the layers.
        predicate_size: size of an embedding of whether a token is of the predicate, beside the
            features (He et al. 2017, section 2.2); 0: none.
        seq_length, crf, window, width: as of `bert_task`.

    Inputs: dict of float32 `lm_layers` `[B, T, L, D]` (zeros at padding and at special tokens);
    with `predicate_size` int32 `predicate_mask` `[B, T]`, 1 at the predicate;
    int32 `[B, T]` `input_mask` (1 at real and special tokens), with `pairs` `input_type_ids`
    (0 or 1: which segment) and with `vocab_size` `word_ids` (0: padding or special). For "choice"
    all have one axis more: `[B, C, T, ...]`. With "mention" int32 `word_positions` `[B, T]`, where
    words stand, then zeros.

    Outputs, errors: those of `bert_task`; also ValueError for an unknown `mix`.
    """
    head = head_of(output, num_classes, sequences, crf, window=window, width=width)
    if vocab_size is None:
        check_positive(num_layers=num_layers)
    if mix not in ("weighted", "concat"):
        raise ValueError(f'mix={mix!r} must be "weighted" or "concat"')

    shape = (sequences, seq_length) if head.several else (seq_length,)
    names = ["input_mask"] + ["input_type_ids"] * pairs + ["word_ids"] * (vocab_size is not None)
    names += ["predicate_mask"] * (predicate_size > 0)
    inputs = {key: keras.Input(shape, dtype="int32", name=key) for key in names}
    if num_layers:
        shape = (*shape, num_layers, size)
        inputs["lm_layers"] = keras.Input(shape, dtype="float32", name="lm_layers")
    flat = inputs
    if head.several:
        flat = {key: fold(x, sequences) for key, x in inputs.items()}  # [C*B, T, ...]
    if head.of_documents:
        flat = {key: head.windows(x) for key, x in inputs.items()}
        inputs |= head.inputs(seq_length)
    real = ops.not_equal(flat["input_mask"], 0)  # bool [B, T]

    parts = []
    if vocab_size is not None:
        table = keras.layers.Embedding(vocab_size, embedding_size, name="word_embedding")
        parts.append(Dropout(dropout, name="word_dropout")(table(flat["word_ids"])))
    if num_layers:  # [B, T, D or L*D]
        parts.append(mixed(flat["lm_layers"], mix, lm_dropout, mix_l2, "mix"))
    if predicate_size:
        # As large as features: with Keras's 0.05 the LSTM is slow to notice it.
        spread = keras.initializers.RandomNormal(stddev=1.0)
        marks = keras.layers.Embedding(2, predicate_size, spread, name="predicate_embedding")
        parts.append(marks(flat["predicate_mask"]))
    x = ops.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]
    segments = None
    if pairs:
        second = ops.not_equal(flat["input_type_ids"], 0)
        segments = [ops.logical_and(real, s) for s in (ops.logical_not(second), second)]
        x = aligned(x, *segments, units)  # [B, T, 2*units]
    h = bilstms(x, real, units, lstm_layers, dropout)  # [B, T, 2*units]

    initializer = keras.initializers.GlorotUniform()
    if head.of_documents:
        outputs = head.outputs(h, inputs["word_positions"], initializer, dropout)
    elif head.of_tokens:
        outputs = head.outputs(
            h, real, initializer, above=lambda h: bilstms(h, real, units, 1, dropout, "end_rnn")
        )
    else:
        v = pooled_pair(h, *segments, units, dropout) if pairs else pooled(h, real)  # [B, F]
        outputs = head.outputs(unfold(v, sequences), initializer)
    return keras.Model(inputs, outputs, name=name)


def mixed(lm_layers: Tensor, mix: str, dropout: float, l2: float, name: str) -> Tensor:
    """Return the layers `[B, T, L, D]` as `[B, T, D]`, or `[B, T, L*D]` for "concat", dropped."""
    layers = ops.unstack(lm_layers, axis=2)  # L of [B, T, D]
    if len(layers) == 1:
        x = layers[0]
    elif mix == "concat":
        x = ops.concatenate(layers, axis=-1)
    else:
        x = ScalarMix(len(layers), l2=l2, name=name)(layers)
    return Dropout(dropout, name=f"{name}_dropout")(x)


def bilstms(
    x: Tensor, real: Tensor, units: int, count: int, dropout: float, name: str = "rnn"
) -> Tensor:
    """Return the output `[B, T, 2*units]` of `count` biLSTM layers, each with dropout."""
    for index in range(count):
        lstm = keras.layers.LSTM(units, return_sequences=True, name="lstm")
        x = keras.layers.Bidirectional(lstm, name=f"{name}_{index}")(x, mask=real)
        x = Dropout(dropout, name=f"{name}_{index}_dropout")(x)
    return x


def pooled(h: Tensor, real: Tensor) -> Tensor:
    """Return `[max_t h_t; mean_t h_t]` over the real t: `[B, 2F]`; zeros where there is none."""
    real = ops.cast(real, h.dtype)[..., None]  # [B, T, 1]
    largest = ops.max(h * real - (1.0 - real) * 1e4, axis=1)  # far below any h
    largest = largest * ops.max(real, axis=1)
    mean = ops.sum(h * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)
    return ops.concatenate([largest, mean], axis=-1)


def pooled_pair(h: Tensor, first: Tensor, second: Tensor, units: int, dropout: float) -> Tensor:
    """Return `relu(U drop([p; q; |p - q|; p * q]) + d)` `[B, units]`, p and q pooled segments."""
    p, q = (pooled(h, segment) for segment in (first, second))
    v = ops.concatenate([p, q, ops.abs(p - q), p * q], axis=-1)  # [B, 16*units]
    v = Dropout(dropout, name="pair_dropout")(v)
    return keras.layers.Dense(units, activation="relu", name="pair")(v)


def aligned(x: Tensor, first: Tensor, second: Tensor, units: int) -> Tensor:
    """Return `relu(V [x_t; a_t; x_t * a_t] + c)` with a_t the tokens of the other segment like t.

    `a_t = sum_s p_ts x_s`, s over the real tokens of the segment that t is not in, with
    `p_t = softmax_s(f(x_t) . f(x_s) / sqrt(units))`, `f(x) = relu(W x + b)`: the soft alignment of
    Parikh et al. 2016 (section 3.1) and Chen et al. 2017a (ESIM, 3.2), the aligned question
    embedding of Chen et al. 2017b (DrQA, 3.2).

    Args:
        x: `[B, T, D]`.
        first, second: bool `[B, T]`, the real tokens of each segment.
        units: width of f; the result is twice as wide.

    Returns:
        `[B, T, 2*units]`. Where the other segment is empty, a is 0.
    """
    f = keras.layers.Dense(units, activation="relu", name="alignment_projection")(x)
    scores = ops.cast(ops.matmul(f, ops.swapaxes(f, 1, 2)), "float32") * units**-0.5  # [B, T, T]
    # What t may attend to: the first segment attends to the second, all else to the first.
    first, second = (ops.cast(s, "float32") for s in (first, second))
    seen = first[:, :, None] * second[:, None, :] + (1.0 - first)[:, :, None] * first[:, None, :]
    p = ops.softmax(scores + (1.0 - seen) * MASKED, axis=-1) * seen
    a = ops.matmul(ops.cast(p, x.dtype), x)  # [B, T, D]
    together = ops.concatenate([x, a, x * a], axis=-1)  # [B, T, 3D]
    return keras.layers.Dense(2 * units, activation="relu", name="alignment")(together)
