"""Encoders fine-tuned: one linear layer on the whole encoder.

BERT, and every encoder with its inputs and outputs: Devlin et al. 2019, section 4. GPT, whose
vector of the last token is read, or that of every token: Radford et al. 2018, sections 3.2 and 3.3.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tfnlp.layers import Dropout
from tfnlp.layers.base import Tensor
from tfnlp.models.bert import bert
from tfnlp.models.encoder_parts import encoder_inputs
from tfnlp.models.first_position import encoder_at_first
from tfnlp.models.gpt import gpt
from tfnlp.models.task_heads import fold, head_of, hidden_layer, unfold


def bert_for_tasks(
    encoder: keras.Model | None, config: dict[str, Any], **changes: Any
) -> keras.Model:
    """Return a copy of a BERT, built with changed arguments, by `encoder_for_tasks`."""
    return encoder_for_tasks(bert, encoder, config, **changes)


def encoder_for_tasks(
    build: Callable[..., keras.Model],
    encoder: keras.Model | None,
    config: dict[str, Any],
    **changes: Any,
) -> keras.Model:
    """Return a copy of an encoder, which is not changed, built with changed arguments.

    Args:
        build: the function that made it, such as `bert`, called with keywords.
        encoder: a model made by `build(**config)`, or None: all weights are new.
        config: dict of the arguments that made it.
        **changes: arguments of `build` to change, such as `dropout` or `dtype`; `pooler=False`
            leaves the pooler out; not those that change the shape of a weight. `seq_length` is
            None unless given.

    Raises:
        ValueError: for weights that do not fit `config` and `changes`.
    """
    model = build(**{**config, "seq_length": None, **changes})
    if encoder is None:
        return model
    old = {variable.path: variable for variable in encoder.weights}
    new = {variable.path: variable for variable in model.weights}
    other = {path for path in old.keys() ^ new.keys() if not path.startswith("pooler/")}
    if other:
        raise ValueError(f"config and changes make another model: only one has {min(other)}")
    for path, variable in new.items():
        variable.assign(old[path])
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
    crf: float = 0.0,
    window: int | None = None,
    width: int | None = None,
    name: str = "bert_task",
) -> keras.Model:
    """Return a linear layer on the encoder's last layer `h_t` or on its `pooled`.

    "class" and "label": `W drop(pooled) + b`; "score": the same with one number; "choice":
    `w . drop(pooled_c)` for each sequence c, the same w; "tag": `W drop(h_t) + b`; "span":
    `s . h_t` and `e . h_t`; "mention": `tfnlp.models.Coreference` on the words of a document, whose
    windows the encoder reads one by one. Without a pooler `h_0` of the token `[CLS]` replaces
    `pooled`, or with `hidden` `f(V drop(h_0) + c)`, a layer of the task; the encoder's pooler is
    then not part of the model, nor with "tag", "span" and "mention".

    Args:
        encoder: a model made by `bert`, or another with its inputs and outputs, of which all
            weights are shared.
        output: "class", "label" (any number of the K classes at once), "score", "choice", "tag",
            "span" or "mention".
        num_classes: K, only for "class", "label" and "tag".
        sequences: C, of an example; more than 1 only for "choice".
        dropout: rate on pooled or h.
        initializer_range: standard deviation of the truncated normal that fills W, w, s and e.
        seq_length: static length T, or None for any length.
        hidden: f of a layer of width H before W or w: "tanh" (RoBERTa), "gelu" (ELECTRA), "relu"
            (DistilBERT); None: no such layer, nor for "tag" and "span".
        drop_first: whether `h_0` is dropped out before the hidden layer (not in DistilBERT).
        crf: with "tag" the rate of a CRF on the logits (`tfnlp.layers.CRF`), whose loss and
            decoding are up to the task; 0: none.
        window, width: with "mention" the tokens of a window, of which T is a multiple, and the most
            words of a mention.

    Inputs: dict of int32 `input_word_ids`, `input_mask` (1 for real tokens) and `input_type_ids`,
    `[B, T]` or, for "choice", `[B, C, T]`; of an encoder of packed rows also `sequence_ids` and,
    for "class", "label" and "score", `first_positions` `[B, S]`, where S sequences of a row begin;
    with "mention" `word_positions` `[B, T]`, where words stand, then zeros.

    Outputs: dict of float32 `class_logits` or `label_logits` `[B, K]`, `score` `[B]`,
    `choice_logits` `[B, C]`, `tag_logits` `[B, T, K]`, or `start_logits` and `end_logits` `[B, T]`,
    -1e9 at padding, or those of `tfnlp.models.Coreference`. Of packed rows `class_logits`
    `[B, S, K]` and `score` `[B, S]`.

    Raises:
        ValueError: for an unknown `output`, num_classes, sequences or a CRF that do not fit it, or
            an encoder of packed rows with another output than "class", "label", "score" and "tag".
    """
    head = head_of(output, num_classes, sequences, crf, window=window, width=width)
    packed = "sequence_ids" in encoder.input
    if packed and not head.packs:
        raise ValueError(
            f"output={output!r} is one of a row; an encoder of packed rows has several"
        )
    several = sequences if head.several else None
    inputs = encoder_inputs(seq_length, packed, not head.of_tokens, several)
    initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)
    drop = Dropout(dropout, name="classifier_dropout")

    if head.of_tokens:
        vectors = _without_pooler(encoder)(inputs)["sequence_output"]  # [B, T, H]
        real = ops.not_equal(inputs["input_mask"], 0)  # bool [B, T]
        return keras.Model(inputs, head.outputs(vectors, real, initializer, drop=drop), name=name)

    if head.of_documents:
        inputs = {**inputs, **head.inputs(seq_length)}
        read = _without_pooler(encoder)
        vectors = read({key: head.windows(inputs[key]) for key in read.input})["sequence_output"]
        positions = inputs["word_positions"]
        return keras.Model(
            inputs, head.outputs(vectors, positions, initializer, dropout), name=name
        )

    flat = inputs
    if head.several:
        flat = {key: fold(x, sequences) for key, x in inputs.items()}  # [C*B, T]
    read = encoder if hidden is None else _without_pooler(encoder)
    found = read({key: flat[key] for key in read.input})
    pooled = at_start = _at_start(found, inputs.get("first_positions"))
    if hidden is not None:
        rate = dropout if drop_first else 0.0
        pooled = hidden_layer(pooled, hidden, rate, initializer.clone())
    pooled = drop(pooled)
    # [B, S, 1, H] or [B, C, H]
    pooled = pooled[:, :, None] if packed else unfold(pooled, sequences)
    outputs = head.outputs(pooled, initializer)
    model = keras.Model(inputs, outputs, name=name)
    if packed:
        return model

    def fast() -> keras.Model:
        part = encoder_at_first(read)
        if part is None:
            return model
        return keras.Model(inputs, keras.Model(at_start, outputs)(_at_start(part(flat))), name=name)

    model.for_prediction = functools.cache(fast)  # a function: Keras must not track its model
    return model


def unpacked_task(model: keras.Model, name: str = "unpacked_task") -> keras.Model:
    """Return a model of one sequence a row with the weights of a model of packed rows.

    Args:
        model: made by `bert_task` with an encoder of packed rows, of which all weights are shared.

    Inputs and outputs: those of `bert_task` with another encoder.
    """
    packed = ("sequence_ids", "first_positions")
    inputs = {
        key: keras.Input(x.shape[1:], dtype=x.dtype, name=key)
        for key, x in model.input.items()
        if key not in packed
    }
    mask = inputs["input_mask"]
    whole = {"sequence_ids": ops.ones_like(mask), "first_positions": ops.zeros_like(mask[:, :1])}
    found = model({**inputs, **{key: x for key, x in whole.items() if key in model.input}})
    if "first_positions" in model.input:
        found = {key: x[:, 0] for key, x in found.items()}
    return keras.Model(inputs, found, name=name)


def gpt_with_extra_tokens(
    encoder: keras.Model | None, config: dict[str, Any], extra: int = 3, **changes: Any
) -> keras.Model:
    """Return a copy of the encoder with `extra` tokens after its vocabulary.

    Their vectors have new random values, as in a new model; all other weights are copies, so that
    `encoder` is not changed.

    Args:
        encoder, config, changes: of `gpt`, see `encoder_for_tasks`.
        extra: tokens to add.

    Raises:
        ValueError: for weights that do not fit `config` and `changes`.
    """
    vocab_size = config["vocab_size"]
    model = encoder_for_tasks(gpt, None, config, **{**changes, "vocab_size": vocab_size + extra})
    if encoder is None:
        return model
    table = model.get_layer("token_embedding").embeddings
    for variable, old in zip(model.weights, encoder.weights, strict=True):
        if variable is table:
            old = ops.concatenate([old, variable[vocab_size:]], axis=0)  # [V + extra, H]
        variable.assign(old)
    return model


def gpt_task(
    encoder: keras.Model,
    output: str = "class",
    num_classes: int | None = None,
    sequences: int = 1,
    dropout: float = 0.1,
    initializer_range: float = 0.02,
    seq_length: int | None = None,
    crf: float = 0.0,
    window: int | None = None,
    width: int | None = None,
    name: str = "gpt_task",
) -> keras.Model:
    """Return a linear layer on `h_c`, the encoder's last layer at the extract token of sequence c.

    "class" and "label": `logits = W drop(sum_c h_c) + b`, with one sequence eq. 3 of the paper; of
    the two orders of a pair the sum, which does not depend on the order. "score": the same with one
    number. "choice": `logit_c = w . drop(h_c)`, the same w for each answer. The dropout is that of
    the reference code: one mask for all sequences of an example. With `h_t`, the last layer at
    token t, "tag": `W drop(h_t) + b`; "span": `s . h_t` and `e . h_t`; "mention":
    `tfnlp.models.Coreference`, see `bert_task`. `h_t` depends on token t and those before it only.

    Args:
        encoder: a model made by `gpt_with_extra_tokens`.
        sequences: C, of an example; 1 for "tag" and "span".
        initializer_range: standard deviation of the normal that fills W, w, s and e.
        others: as of `bert_task`.

    Inputs: dict of int32 `input_word_ids` and `input_mask` (1 for real tokens) `[B, C, T]`, and
    except for "tag" and "span" `extract_positions` `[B, C]`; with "mention" `[B, T]`, and
    `word_positions`.

    Outputs, errors: as of `bert_task`; and `sequence_output` `[B, C, T, H]` in the compute dtype,
    for a language model that is trained together with the task.
    """
    head = head_of(output, num_classes, sequences, crf, True, window, width)
    shape = (seq_length,) if head.of_documents else (sequences, seq_length)
    inputs = {
        key: keras.Input(shape, dtype="int32", name=key) for key in ("input_word_ids", "input_mask")
    }
    initializer = keras.initializers.RandomNormal(stddev=initializer_range)
    if head.of_documents:
        hidden = encoder({key: head.windows(x) for key, x in inputs.items()})["sequence_output"]
        inputs |= head.inputs(seq_length)
        outputs = head.outputs(hidden, inputs["word_positions"], initializer, dropout)
        return keras.Model(inputs, outputs, name=name)
    flat = {key: fold(x, sequences) for key, x in inputs.items()}  # [C*B, T]
    hidden = encoder(flat)["sequence_output"]  # [C*B, T, H]
    drop = Dropout(dropout, name="classifier_dropout")
    real = ops.not_equal(flat["input_mask"], 0)  # bool [B, T]
    if head.of_tokens:
        outputs = head.outputs(hidden, real, initializer, drop=drop)
    else:
        inputs["extract_positions"] = keras.Input(
            (sequences,), dtype="int32", name="extract_positions"
        )
        positions = fold(inputs["extract_positions"], sequences)  # [C*B]
        # A product selects one row of each: its gradient is a product too, not a scatter.
        places = ops.cumsum(ops.ones_like(flat["input_mask"]), axis=1) - 1  # [C*B, T]
        chosen = ops.cast(ops.equal(places, positions[:, None]), hidden.dtype)
        extracted = ops.matmul(chosen[:, None], hidden)[:, 0]  # [C*B, H]
        h = unfold(extracted, sequences)  # [B, C, H]
        h = h * drop(ops.ones_like(h[:, :1]))
        outputs = head.outputs(h, initializer)
    outputs["sequence_output"] = unfold(hidden, sequences)  # [B, C, T, H]
    return keras.Model(inputs, outputs, name=name)


def _at_start(found: dict[str, Tensor], positions: Tensor | None = None) -> Tensor:
    """Return `[B, H]` of the outputs of an encoder, `[B, S, H]` of one of packed rows."""
    if "pooled_output" in found:
        return found["pooled_output"]
    if positions is not None:
        return ops.take_along_axis(found["sequence_output"], positions[..., None], axis=1)
    return found["sequence_output"][:, 0]


def _without_pooler(encoder: keras.Model) -> keras.Model:
    """Return the encoder without its pooler: weights without a gradient would still decay."""
    if "pooled_output" not in encoder.output:
        return encoder
    inputs = {key: value for key, value in encoder.input.items() if key != "first_positions"}
    outputs = {key: value for key, value in encoder.output.items() if key != "pooled_output"}
    return keras.Model(inputs, outputs, name=encoder.name)
