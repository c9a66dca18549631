"""GPT fine-tuned: a linear layer on what it says of the last token (Radford et al. 2018, 3.2-3.3)
or of every token.

Every task becomes one sequence of tokens or several (see `tfnlp.tasks.TaskEncoder`), each begun and
ended by tokens that pretraining did not know.
"""

import keras
from keras import ops

from tfnlp.layers import Dropout
from tfnlp.models.gpt import gpt
from tfnlp.models.task_heads import (
    check_output,
    fold,
    sequence_outputs,
    span_outputs,
    tag_outputs,
    unfold,
)


def gpt_with_extra_tokens(encoder, config, extra=3, **changes):
    """The same encoder with `extra` more tokens behind its vocabulary.

    Their vectors are new, from the normal that fills a new model's table; all other weights are
    copies, so that `encoder` stays what it is.

    Args:
        encoder: a model made by `gpt(**config)`, or None: all weights are new.
        config: dict of the arguments of `gpt` that made it.
        extra: tokens to add.
        **changes: arguments of `gpt` that are to be others, such as `dropout` or `dtype`; those
            that change a weight's shape are refused. `seq_length` is None unless given.

    Returns:
        a model as made by `gpt`.

    Raises:
        ValueError: if `extra` is below 1, or if weights don't fit `config` and `changes`.
    """
    if extra < 1:
        raise ValueError(f"extra={extra} must be at least 1")
    arguments = {**config, "seq_length": None, **changes}
    if "vocab_size" not in config or "vocab_size" in changes:
        raise ValueError("vocab_size must be in config, and not among the changes")
    vocab_size = config["vocab_size"]
    model = gpt(**{**arguments, "vocab_size": vocab_size + extra})
    if encoder is None:
        return model
    table, old_table = (m.get_layer("token_embedding").embeddings for m in (model, encoder))
    pairs = [(v, old) for v, old in zip(model.weights, encoder.weights, strict=False)]
    fits = len(model.weights) == len(encoder.weights) and all(
        old is old_table or v.shape == old.shape for v, old in pairs
    )
    if not fits or tuple(old_table.shape) != (vocab_size, table.shape[1]):
        raise ValueError(
            "the encoder's weights have other shapes than those of gpt with this config and these "
            "changes; give the arguments that the encoder was made with"
        )
    for variable, old in pairs:
        if variable is table:
            old = ops.concatenate([old, variable[vocab_size:]], axis=0)  # [V + extra, H]
        variable.assign(old)
    return model


def gpt_task(
    encoder,
    output="class",
    num_classes=None,
    sequences=1,
    dropout=0.1,
    initializer_range=0.02,
    seq_length=None,
    name="gpt_task",
):
    """A linear layer on `h_c`, the encoder's last layer at the extract token of sequence c, or on
    `h_t`, the same at every token t.

    "class": `logits = W drop(sum_c h_c) + b`, with one sequence eq. 3 of the paper; with the two
    orders of a pair their sum, in which the order is lost. "score": the same with one number.
    "choice": `logit_c = w . drop(h_c)`, the same w for each answer. The dropout is that of the
    reference code: one mask for all sequences of an example. "tag": `W drop(h_t) + b`; "span":
    `s . h_t` and `e . h_t`, of what stands at t or before it.

    Args:
        encoder: a model made by `gpt_with_extra_tokens`.
        output: "class", "score", "choice", "tag" or "span".
        num_classes: K, for "class" and "tag" alone.
        sequences: C, of an example; 1 for "tag" and "span".
        dropout: rate on h.
        initializer_range: standard deviation of the normal that fills W, w, s and e.
        seq_length: static length T, or None for any length.
        name: name of the model.

    Inputs: dict of int32 `input_word_ids` and `input_mask` (1 for real tokens) `[B, C, T]`, and
    but for "tag" and "span" `extract_positions` `[B, C]`.

    Outputs: dict of float32 `class_logits` `[B, K]`, `score` `[B]`, `choice_logits` `[B, C]`,
    `tag_logits` `[B, T, K]`, or `start_logits` and `end_logits` `[B, T]`, -1e9 at padding; and
    `sequence_output` `[B, C, T, H]` in the compute dtype, for the language model that is learnt
    beside it.

    Raises:
        ValueError: for an unknown `output` or sizes that don't fit it.
    """
    check_output(output, num_classes, sequences, several=("class", "score"))
    inputs = {
        key: keras.Input((sequences, seq_length), dtype="int32", name=key)
        for key in ("input_word_ids", "input_mask")
    }
    flat = {key: fold(x, sequences) for key, x in inputs.items()}  # [C*B, T]
    hidden = encoder(flat)["sequence_output"]  # [C*B, T, H]
    initializer = keras.initializers.RandomNormal(stddev=initializer_range)
    drop = Dropout(dropout, name="classifier_dropout")
    if output == "tag":
        outputs = tag_outputs(drop(hidden), num_classes, initializer)
    elif output == "span":
        real = ops.not_equal(flat["input_mask"], 0)  # bool [B, T]
        outputs = span_outputs(hidden, hidden, real, initializer)
    else:
        inputs["extract_positions"] = keras.Input(
            (sequences,), dtype="int32", name="extract_positions"
        )
        positions = fold(inputs["extract_positions"], sequences)  # [C*B]
        # A product picks one row in each: its gradient is a product too, and no scatter.
        places = ops.cumsum(ops.ones_like(flat["input_mask"]), axis=1) - 1  # [C*B, T]
        chosen = ops.cast(ops.equal(places, positions[:, None]), hidden.dtype)
        extracted = ops.matmul(chosen[:, None], hidden)[:, 0]  # [C*B, H]
        h = unfold(extracted, sequences)  # [B, C, H]
        h = h * drop(ops.ones_like(h[:, :1]))
        outputs = sequence_outputs(h, output, num_classes, initializer)
    outputs["sequence_output"] = unfold(hidden, sequences)  # [B, C, T, H]
    return keras.Model(inputs, outputs, name=name)
