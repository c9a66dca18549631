"""Networks that train sentence vectors: one encoder for all texts of an example."""

import keras
from keras import ops

from tfnlp.models.sentence_encoder import sentence_encoder
from tfnlp.models.task_heads import fold, unfold


def siamese(
    encoder: keras.Model,
    texts: int = 2,
    num_classes: int | None = None,
    pooling: str = "mean",
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
        pooling: see `tfnlp.layers.SentencePooling`.
        name: of the model.

    Inputs: those of the encoder, dict of int32 `[B, S, T]`.

    Outputs: dict of `sentence_embeddings`, float32 `[B, S, D]`; with classes also `class_logits`,
    float32 `[B, K]`.
    """
    inputs = {key: keras.Input((texts, None), dtype="int32", name=key) for key in encoder.input}
    read = sentence_encoder(encoder, pooling, normalize=False)
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
