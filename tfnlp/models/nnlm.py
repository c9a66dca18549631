"""The neural probabilistic language model (Bengio et al. 2003)."""

import keras
from keras import ops

from tfnlp.layers import (
    Dropout,
    HierarchicalSoftmax,
    NoiseContrastiveSoftmax,
    SampledSoftmax,
    TokenEmbedding,
)
from tfnlp.layers.base import DType, check_positive
from tfnlp.layers.dense import Dense

NNLM = dict(context=4, embedding_size=30, hidden_size=100)  # MLP9 of the paper's table 1


LOSSES = ("softmax", "hierarchical", "nce")


def nnlm(
    vocab_size: int,
    context: int = 4,
    embedding_size: int = 30,
    hidden_size: int = 100,
    direct: bool = False,
    dropout: float = 0.0,
    num_samples: int | None = None,
    loss: str = "softmax",
    depth: int | None = None,
    dtype: DType = None,
    name: str = "nnlm",
) -> keras.Model:
    """Return a model that predicts the next word from the vectors of the n - 1 words before it.

    `p(w | context) = softmax(y)_w`, `y = b + W x + U tanh(d + H x)` (eq. 1), where x is the
    concatenation of the vectors C(w) of the words of the context, the farthest first; one table C
    for all positions. Without direct connections W = 0. The softmax has `[U W]` as one matrix.

    With the loss "hierarchical" p is the product of decisions in a tree of words in place of a
    softmax (Morin & Bengio 2005), see `HierarchicalSoftmax`, whose `set_counts` makes the tree that
    of Huffman.

    Args:
        vocab_size: V.
        context: n - 1, number of words before the predicted one.
        embedding_size: m, width of the word vectors.
        hidden_size: h, tanh units; 0: none, with `direct`.
        direct: connect the word vectors to the softmax directly, too.
        dropout: rate on x and on the hidden units while training; the paper has none.
        num_samples: words of the sampled softmax, or of the noise of "nce", that `nnlm_pretrainer`
            trains with; ids must then be sorted by falling frequency. None: the full softmax.
        loss: "softmax", "hierarchical", or "nce" for noise-contrastive estimation in training (see
            `NoiseContrastiveSoftmax`).
        depth: of "hierarchical", the longest path of the tree; None: that of a balanced tree.
        dtype: a Keras dtype policy; None takes the global one. Logits are float32 under any.

    Inputs: dict of `input_word_ids` int32 `[B, n - 1]`.

    Outputs: dict of `lm_logits` float32 `[B, V]` (of "hierarchical" the log probabilities),
    `word_emb` `[B, n - 1, m]` and `features` `[B, h]`, with `direct` `[B, h + (n - 1) m]`: the
    input of the softmax.

    Raises:
        ValueError: for sizes below 1, neither hidden units nor direct connections, an unknown loss,
            or a depth below that of a balanced tree.
    """
    check_positive(context=context, embedding_size=embedding_size)
    if loss not in LOSSES:
        raise ValueError(f"loss={loss!r} is unknown; choose one of {sorted(LOSSES)}")
    if not (hidden_size or direct):
        raise ValueError("hidden_size=0 needs direct=True")
    ids = keras.Input((context,), dtype="int32", name="input_word_ids")
    vectors = TokenEmbedding(
        vocab_size,
        embedding_size,
        initializer=keras.initializers.RandomUniform(-0.1, 0.1),
        dtype=dtype,
        name="token_embedding",
    )(ids)
    x = ops.reshape(vectors, (-1, context * embedding_size))  # [B, (n - 1) m]
    x = Dropout(dropout, dtype=dtype, name="embedding_dropout")(x)
    parts = [x] if direct else []
    if hidden_size:
        hidden = Dense(hidden_size, "tanh", dtype=dtype, name="hidden")(x)
        parts.insert(0, Dropout(dropout, dtype=dtype, name="hidden_dropout")(hidden))
    features = ops.concatenate(parts, -1) if len(parts) > 1 else parts[0]
    if loss == "hierarchical":
        softmax = HierarchicalSoftmax(vocab_size, depth, name="softmax")
    else:
        kind = NoiseContrastiveSoftmax if loss == "nce" else SampledSoftmax
        softmax = kind(vocab_size, num_samples, name="softmax")
    logits = softmax(features)
    outputs = {"lm_logits": logits, "word_emb": vectors, "features": features}
    return keras.Model({"input_word_ids": ids}, outputs, name=name)


def nnlm_pretrainer(model: keras.Model, name: str = "nnlm_pretrainer") -> keras.Model:
    """Return a model of the loss of `model` (from `nnlm`): `-log p(target | context)`.

    Args:
        model: a model made by `nnlm`.

    Inputs: dict of `input_word_ids` int32 `[B, n - 1]` and `targets` int32 `[B]`.

    Outputs: dict of `losses` float32 `[B]`.
    """
    targets = keras.Input((), dtype="int32", name="targets")
    losses = model.get_layer("softmax")(model.output["features"], targets)
    return keras.Model({**model.input, "targets": targets}, {"losses": losses}, name=name)
