"""Tasks with ELMo beside their own word embeddings (Peters et al. 2018, section 3.3).

The biLM stays frozen, so its layers come in as numbers; what is learnt of ELMo are the weights that
mix them, one set for each place where it enters.
"""

import keras
from keras import ops

from tfnlp.models.feature_tasks import bilstms, check_sizes, mixed, pooled, word_vectors

PLACES = {None: (), "input": ("input",), "output": ("output",), "both": ("input", "output")}


def elmo_tagger(vocab_size, num_tags, name="elmo_tagger", **arguments):
    """A tag for every word: `logits_k = W h_k + b` on what `task_encoder` describes.

    Args:
        vocab_size: word ids, padding and the unknown word included.
        num_tags: tags C.
        name: name of the model.
        **arguments: those of `task_encoder`.

    Inputs: dict of int32 `word_ids` `[B, T]` (0: padding, on the right) and, with `elmo_at`, float
    `lm_layers` `[B, T, L+1, D]`.

    Outputs: dict of `tag_logits` float32 `[B, T, C]`; without meaning at padding.

    Raises:
        ValueError: for an unknown `elmo_at`, or sizes below 1.
    """
    inputs, hidden, _ = task_encoder(vocab_size, **arguments)
    logits = _logits(num_tags, "num_tags", "tag_logits")(hidden)
    return keras.Model(inputs, {"tag_logits": logits}, name=name)


def elmo_classifier(vocab_size, num_classes, name="elmo_classifier", **arguments):
    """A label for the sentence: `logits = W [max_k h_k; mean_k h_k] + b` over its real words.

    Args:
        vocab_size: word ids, padding and the unknown word included.
        num_classes: labels C.
        name: name of the model.
        **arguments: those of `task_encoder`.

    Inputs: as `elmo_tagger`.

    Outputs: dict of `class_logits` float32 `[B, C]`.

    Raises:
        ValueError: for an unknown `elmo_at`, or sizes below 1.
    """
    inputs, hidden, real = task_encoder(vocab_size, **arguments)
    logits = _logits(num_classes, "num_classes", "class_logits")(pooled(hidden, real))
    return keras.Model(inputs, {"class_logits": logits}, name=name)


def task_encoder(
    vocab_size,
    embedding_size=100,
    units=200,
    num_layers=1,
    dropout=0.5,
    elmo_at=None,
    num_lm_layers=3,
    lm_size=1024,
    elmo_dropout=0.5,
    elmo_l2=0.001,
    seq_length=None,
):
    """Word embeddings and a bidirectional LSTM, with ELMo at its input, its output or both.

    `x_k = [E[id_k]; ELMo_k]`, `h = biLSTM(x)`, `h_k' = [h_k; ELMo'_k]` with
    `ELMo_k = gamma sum_j softmax(w)_j lm_layers_kj` (Peters et al., eq. 1); ELMo and ELMo' have
    weights of their own. Dropout is on E[id], on ELMo and on each layer's h.

    Args:
        vocab_size: rows of E.
        embedding_size: columns of E.
        units: width of the LSTM in each direction.
        num_layers: biLSTMs, one above the other.
        dropout: rate on E[id] and h.
        elmo_at: "input", "output", "both", or None for no ELMo.
        num_lm_layers: L+1, the biLM's layers and its word embedding.
        lm_size: D.
        elmo_dropout: rate on ELMo.
        elmo_l2: lambda of `lambda |w|^2`, which draws the mix towards a mean of the layers.
        seq_length: static length T, or None for any.

    Returns:
        dict of inputs, `h'` `[B, T, F]`, bool `[B, T]` (true at real words).
    """
    if elmo_at not in PLACES:
        raise ValueError(f'elmo_at={elmo_at!r} must be "input", "output", "both" or None')
    sizes = dict(vocab_size=vocab_size, embedding_size=embedding_size, units=units)
    sizes.update(num_layers=num_layers, num_lm_layers=num_lm_layers, lm_size=lm_size)
    check_sizes(**sizes)
    inputs = {"word_ids": keras.Input((seq_length,), dtype="int32", name="word_ids")}
    real = ops.not_equal(inputs["word_ids"], 0)  # bool [B, T]
    elmo = {}
    if elmo_at is not None:
        inputs["lm_layers"] = lm_layers = keras.Input(
            (seq_length, num_lm_layers, lm_size), dtype="float32", name="lm_layers"
        )
        for place in PLACES[elmo_at]:
            elmo[place] = mixed(lm_layers, "weighted", elmo_dropout, elmo_l2, f"elmo_{place}")

    x = word_vectors(inputs["word_ids"], vocab_size, embedding_size, dropout)
    if "input" in elmo:
        x = ops.concatenate([x, elmo["input"]], axis=-1)
    x = bilstms(x, real, units, num_layers, dropout)
    if "output" in elmo:
        x = ops.concatenate([x, elmo["output"]], axis=-1)
    return inputs, x, real


def _logits(size, argument, name):
    if size < 2:
        raise ValueError(f"{argument}={size} must be at least 2")
    return keras.layers.Dense(size, dtype="float32", name=name)
