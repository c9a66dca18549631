"""An encoder with one vector for each sentence, and the networks that train it."""

from collections.abc import Sequence

import keras
from keras import ops

from tfnlp.layers import SentencePooling
from tfnlp.models.task_heads import fold, unfold


def sentence_encoder(
    encoder: keras.Model,
    pooling: str | Sequence[str] = "mean",
    normalize: bool = True,
    layer: int = -1,
    after: Sequence[keras.layers.Layer] = (),
    skip: int = 0,
    name: str = "sentence_encoder",
) -> keras.Model:
    """Return a model of sentences to vectors, on an encoder whose weights it shares.

    The siamese network of Sentence-BERT (Reimers and Gurevych 2019, section 3) is this model,
    called for each of two sentences.

    Args:
        encoder: from `tfnlp.models.bert`, `gpt` or another with `input_mask` and
            `sequence_output`.
        pooling, normalize, skip: see `tfnlp.layers.SentencePooling`.
        layer: whose outputs are pooled: 0 the embeddings, L or -1 the last layer, with the norm
            that follows it.
        after: layers `[B, D]` to `[B, E]` between pooling and normalization, such as a `Dense`.

    Inputs: those of the encoder, dict of int32 `[B, T]`.

    Outputs: dict of `sentence_embedding`, float32 `[B, D]`, or as wide as `after` makes it.

    Raises:
        ValueError: for another `pooling`, or a layer that the encoder does not have.
    """
    states = hidden_states(encoder)
    if not -len(states) <= layer < len(states):
        raise ValueError(
            f"layer={layer} must be from {-len(states)} to {len(states) - 1}, the outputs of "
            f"{encoder.name}"
        )
    real = ops.not_equal(encoder.input["input_mask"], 0)  # [B, T]
    at_once = normalize and not after
    pool = SentencePooling(pooling, at_once, skip, dtype="float32", name="sentence_pooling")
    pooled = pool(states[layer], mask=real)
    for following in after:
        pooled = following(pooled)
    if normalize and after:
        pooled = keras.layers.UnitNormalization(dtype="float32", name="sentence_norm")(pooled)
    return keras.Model(encoder.input, {"sentence_embedding": pooled}, name=name)


def hidden_states(encoder: keras.Model) -> list[keras.KerasTensor]:
    """Return the outputs `[B, T, D]` of an encoder: its embeddings and each of its L layers.

    An encoder that does not give its layers has one, its last.
    """
    outputs = encoder.output
    layers = [outputs.get("embedding_output"), *outputs.get("encoder_outputs", ())[:-1]]
    return [x for x in layers if x is not None] + [outputs["sequence_output"]]


def siamese(
    encoder: keras.Model,
    texts: int = 2,
    num_classes: int | None = None,
    pooling: str | Sequence[str] = "mean",
    after: Sequence[keras.layers.Layer] = (),
    skip: int = 0,
    name: str = "siamese",
) -> keras.Model:
    """Return a model of S texts to their vectors, with one encoder whose weights it shares.

    The networks of Sentence-BERT (Reimers and Gurevych 2019, figures 1 and 2): vectors are not
    normalized; with classes, the logits are `W [u; v; |u - v|] + b` of the first two vectors.

    Args:
        encoder: as of `sentence_encoder`; weights that sentence vectors do not depend on, such as
            a pooler's, are not part of the model.
        texts: S, two or more.
        num_classes: K, of the relation of two texts; None: vectors alone.
        pooling, after, skip: see `sentence_encoder`.

    Inputs: those of the encoder, dict of int32 `[B, S, T]`.

    Outputs: dict of `sentence_embeddings`, float32 `[B, S, D]`; with classes also `class_logits`,
    float32 `[B, K]`.
    """
    inputs = {key: keras.Input((texts, None), dtype="int32", name=key) for key in encoder.input}
    read = sentence_encoder(encoder, pooling, normalize=False, after=after, skip=skip)
    found = read({key: fold(x, texts) for key, x in inputs.items()})  # [S*B, T] to [S*B, D]
    vectors = unfold(found["sentence_embedding"], texts)  # [B, S, D]
    outputs = {"sentence_embeddings": vectors}
    if num_classes is not None:
        u, v = vectors[:, 0], vectors[:, 1]
        both = ops.concatenate([u, v, ops.abs(u - v)], -1)  # [B, 3D]
        initializer = keras.initializers.TruncatedNormal(stddev=0.02)
        dense = keras.layers.Dense(
            num_classes, kernel_initializer=initializer, dtype="float32", name="classifier"
        )
        outputs["class_logits"] = dense(both)
    return keras.Model(inputs, outputs, name=name)
