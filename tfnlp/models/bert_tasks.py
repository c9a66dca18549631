"""BERT fine-tuned: one linear layer on the whole encoder (Devlin et al. 2019, section 4).

The same layers fine-tune every encoder with its inputs and outputs.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tfnlp.layers import Dropout
from tfnlp.layers.types import Tensor
from tfnlp.models.bert import bert
from tfnlp.models.first_position import encoder_at_first
from tfnlp.models.packed import packed_input
from tfnlp.models.task_heads import (
    HIDDEN,
    check_output,
    fold,
    hidden_layer,
    sequence_outputs,
    span_outputs,
    tag_outputs,
    unfold,
)


def bert_for_tasks(
    encoder: keras.Model | None, config: dict[str, Any], **changes: Any
) -> keras.Model:
    """Return a copy of a BERT, built with changed arguments; see `encoder_for_tasks`.

    Args:
        encoder: a model made by `bert(**config)`, or None: all weights are new.
        config: dict of the arguments that made it.
        **changes: arguments of `bert` to change, such as `dropout` or `dtype`;
            `pooler=False` leaves the pooler out. Those that change the shape of a weight are
            refused. `seq_length` is None unless given.

    Returns:
        a model as made by `bert`; `encoder` is not changed.

    Raises:
        ValueError: for weights that do not fit `config` and `changes`.
    """
    return encoder_for_tasks(bert, encoder, config, **changes)


def encoder_for_tasks(
    build: Callable[..., keras.Model],
    encoder: keras.Model | None,
    config: dict[str, Any],
    **changes: Any,
) -> keras.Model:
    """Return a copy of an encoder, built with changed arguments.

    Args:
        build: the function that made it, such as `bert`, called with keywords.
        encoder: a model made by `build(**config)`, or None: all weights are new.
        config: dict of the arguments that made it.
        **changes: arguments of `build` to change; see `bert_for_tasks`.

    Raises:
        ValueError: for weights that do not fit `config` and `changes`.
    """
    model = build(**{**config, "seq_length": None, **changes})
    if encoder is None:
        return model
    old = {variable.path: variable for variable in encoder.weights}
    for variable in model.weights:
        found = old.pop(variable.path, None)
        if found is None or variable.shape != found.shape:
            raise ValueError(
                f"the encoder's weight {variable.path} has shape "
                f"{None if found is None else tuple(found.shape)}, but {model.name} with this "
                f"config and these changes has {tuple(variable.shape)} there; give the arguments "
                "that the encoder was made with"
            )
        variable.assign(found)
    left = [path for path in old if not path.startswith("pooler/")]
    if left:
        raise ValueError(
            f"{model.name} with this config and these changes has no weight {left[0]}, but the "
            "encoder has; give the arguments that the encoder was made with"
        )
    return model


def bert_task(
    encoder: keras.Model,
    output: str,
    num_classes: int | None = None,
    sequences: int = 1,
    dropout: float = 0.1,
    initializer_range: float = 0.02,
    seq_length: int | None = None,
    hidden: str | None = None,
    drop_first: bool = True,
    name: str = "bert_task",
) -> keras.Model:
    """Return a linear layer on the encoder's last layer `h_t` or on its `pooled`.

    "class": `W drop(pooled) + b`; "score": the same with one number; "choice": `w . drop(pooled_c)`
    for each sequence c, the same w; "tag": `W drop(h_t) + b`; "span": `s . h_t` and `e . h_t`.
    Without a pooler `h_0` of the token `[CLS]` replaces `pooled`, or with `hidden`
    `f(V drop(h_0) + c)`, a layer of the task; the encoder's pooler is then not part of the model,
    nor with "tag" and "span".

    Args:
        encoder: a model made by `bert`, or another with its inputs and outputs, of which all
            weights are shared.
        output: "class", "score", "choice", "tag" or "span".
        num_classes: K, only for "class" and "tag".
        sequences: C, of an example; more than 1 only for "choice".
        dropout: rate on pooled or h.
        initializer_range: standard deviation of the truncated normal that fills W, w, s and e.
        seq_length: static length T, or None for any length.
        hidden: f of a layer of width H before W or w: "tanh" (RoBERTa), "gelu" (ELECTRA), "relu"
            (DistilBERT); None: no such layer, nor for "tag" and "span".
        drop_first: whether `h_0` is dropped out before the hidden layer (not in DistilBERT).
        name: name of the model.

    Inputs: dict of int32 `input_word_ids`, `input_mask` (1 for real tokens) and `input_type_ids`,
    `[B, T]` or, for "choice", `[B, C, T]`; of an encoder of packed rows also `sequence_ids`.

    Outputs: dict of float32 `class_logits` `[B, K]`, `score` `[B]`, `choice_logits` `[B, C]`,
    `tag_logits` `[B, T, K]`, or `start_logits` and `end_logits` `[B, T]`, -1e9 at padding.

    Raises:
        ValueError: for an unknown `output`, num_classes or sequences that do not fit it, an
            unknown `hidden`, or an encoder of packed rows where a row has one output.
    """
    check_output(output, num_classes, sequences)
    packed = "sequence_ids" in encoder.input
    if packed and output != "tag":
        raise ValueError(
            f"output={output!r} is one of a row, but the encoder, built with packed=True, reads "
            'several sequences a row; take output="tag" or another encoder'
        )
    if hidden is not None and hidden not in HIDDEN:
        raise ValueError(f"hidden={hidden!r} must be None or {', '.join(map(repr, HIDDEN))}")
    shape = (sequences, seq_length) if output == "choice" else (seq_length,)
    inputs = {
        key: keras.Input(shape, dtype="int32", name=key)
        for key in ("input_word_ids", "input_mask", "input_type_ids")
    }
    if packed:
        inputs["sequence_ids"] = packed_input(seq_length)
    initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)
    drop = Dropout(dropout, name="classifier_dropout")

    if output in ("tag", "span"):
        hidden = _without_pooler(encoder)(inputs)["sequence_output"]  # [B, T, H]
        if output == "tag":
            outputs = tag_outputs(drop(hidden), num_classes, initializer)
        else:
            real = ops.not_equal(inputs["input_mask"], 0)  # bool [B, T]
            outputs = span_outputs(hidden, hidden, real, initializer)
        return keras.Model(inputs, outputs, name=name)

    flat = inputs
    if output == "choice":
        flat = {key: fold(x, sequences) for key, x in inputs.items()}  # [C*B, T]
    read = encoder if hidden is None else _without_pooler(encoder)
    pooled = at_start = _at_start(read(flat))
    if hidden is not None:
        rate = dropout if drop_first else 0.0
        pooled = hidden_layer(pooled, hidden, rate, initializer.clone())
    pooled = unfold(drop(pooled), sequences)  # [B, C, H]
    outputs = sequence_outputs(pooled, output, num_classes, initializer)
    model = keras.Model(inputs, outputs, name=name)

    def fast() -> keras.Model:
        part = encoder_at_first(read)
        if part is None:
            return model
        return keras.Model(inputs, keras.Model(at_start, outputs)(_at_start(part(flat))), name=name)

    model.for_prediction = functools.cache(fast)  # a function: Keras must not track its model
    return model


def _at_start(found: dict[str, Tensor]) -> Tensor:
    """Return `[B, H]` of the outputs of an encoder."""
    return found["pooled_output"] if "pooled_output" in found else found["sequence_output"][:, 0]


def _without_pooler(encoder: keras.Model) -> keras.Model:
    """Return the encoder without its pooler: weights without a gradient would still decay."""
    if "pooled_output" not in encoder.output:
        return encoder
    outputs = {key: value for key, value in encoder.output.items() if key != "pooled_output"}
    return keras.Model(encoder.input, outputs, name=encoder.name)
