"""Layers of all task models on the outputs of an encoder."""

from collections.abc import Sequence

import keras
from keras import ops

from tfnlp.layers import CRF, Dropout
from tfnlp.layers.types import Tensor

OUTPUTS = ("class", "label", "score", "choice", "tag", "span")


def check_output(
    output: str,
    num_classes: int | None,
    sequences: int,
    several: Sequence[str] = (),
    crf: float = 0.0,
) -> None:
    """Raise a ValueError if the arguments of a task model do not fit together.

    `several` are outputs besides "choice" that may be of more than one sequence.
    """
    if output not in OUTPUTS:
        raise ValueError(f"output={output!r} must be one of {', '.join(map(repr, OUTPUTS))}")
    counted = output in ("class", "label", "tag")
    least = 1 if output == "label" else 2
    if counted != (num_classes is not None) or counted and num_classes < least:
        raise ValueError(f"num_classes={num_classes} does not fit output={output!r}")
    fits = sequences > 1 if output == "choice" else sequences == 1 or output in several
    if not fits:
        raise ValueError(f"sequences={sequences} does not fit output={output!r}")
    if not crf >= 0 or crf and output != "tag":
        raise ValueError(f"crf={crf} does not fit output={output!r}; only tags have a rate above 0")


def fold(x: Tensor, sequences: int) -> Tensor:
    """Return `[B, C, ...]` as `[C*B, ...]`: all first sequences, then all second ones."""
    return ops.concatenate([x[:, c] for c in range(sequences)], axis=0)


def unfold(x: Tensor, sequences: int) -> Tensor:
    """Return `[C*B, ...]` as `[B, C, ...]`."""
    return ops.stack(ops.split(x, sequences, axis=0), axis=1)


def hidden_layer(
    h: Tensor, activation: str, dropout: float, initializer: keras.Initializer
) -> Tensor:
    """Return `f(V drop(h) + c)`, float32 `[B, H]`, of a layer named "hidden".

    The activation f is a name of Keras, `dropout` the rate on h, the initializer that of V.
    """
    h = Dropout(dropout, name="hidden_dropout")(ops.cast(h, "float32"))
    dense = keras.layers.Dense(
        h.shape[-1],
        activation=activation,  # Keras's "gelu" is the exact one
        kernel_initializer=initializer,
        dtype="float32",
        name="hidden",
    )
    return dense(h)


def sequence_outputs(
    h: Tensor, output: str, num_classes: int | None, initializer: keras.Initializer
) -> dict[str, Tensor]:
    """Return the outputs for whole sequences, `h` `[B, C, F]`, of a layer named "classifier".

    "class" and "label": `W sum_c h_c + b`; "score": the same with one number; "choice": `w . h_c`,
    the same w for each. A bias there would not change a softmax over the choices. Of packed rows
    `h` is `[B, S, C, F]`, and S follows B in what is returned.

    Returns:
        dict of float32 `class_logits` or `label_logits` `[B, K]`, `score` `[B]` or `choice_logits`
        `[B, C]`.
    """
    dense = keras.layers.Dense(
        num_classes or 1,
        use_bias=output != "choice",
        kernel_initializer=initializer,
        dtype="float32",
        name="classifier",
    )
    h = ops.cast(h, "float32")
    if output == "choice":
        return {"choice_logits": dense(h)[..., 0]}  # [B, C]
    total = dense(ops.sum(h, axis=-2))  # [B, K or 1]
    return {"score": total[..., 0]} if output == "score" else {f"{output}_logits": total}


def tag_outputs(
    h: Tensor, num_classes: int, initializer: keras.Initializer, crf: float = 0.0
) -> dict[str, Tensor]:
    """Return `tag_logits = W h_t + b`, float32 `[B, T, K]`, of a layer named "classifier".

    With `crf`, a rate, they are the emissions of a `CRF` named "crf", which is part of the model.
    """
    dense = keras.layers.Dense(
        num_classes, kernel_initializer=initializer, dtype="float32", name="classifier"
    )
    logits = dense(ops.cast(h, "float32"))
    return {"tag_logits": CRF(num_classes, rate=crf, name="crf")(logits) if crf else logits}


def crf_of(model: keras.Model) -> CRF | None:
    """Return the layer that a model with `tag_logits` scores sequences of tags with, or None."""
    found = [layer for layer in model._flatten_layers() if isinstance(layer, CRF)]
    return found[0] if found else None


def span_outputs(
    start: Tensor, end: Tensor, real: Tensor, initializer: keras.Initializer
) -> dict[str, Tensor]:
    """Return `s . start_t` and `e . end_t` where `real`, -1e9 elsewhere (BERT, section 4.2).

    Args:
        start, end: `[B, T, F]`, inputs of the layers "start" and "end".
        real: bool `[B, T]`.
        initializer: of the vectors s and e. There is no bias: it would not change a softmax over
            the positions.

    Returns:
        dict of float32 `start_logits` and `end_logits` `[B, T]`.
    """
    outputs = {}
    for name, h in (("start", start), ("end", end)):
        dense = keras.layers.Dense(
            1,
            use_bias=False,
            kernel_initializer=initializer.clone(),  # itself would give both the same values
            dtype="float32",
            name=name,
        )
        logits = dense(ops.cast(h, "float32"))[..., 0]  # [B, T]
        outputs[f"{name}_logits"] = ops.where(real, logits, -1e9)
    return outputs
