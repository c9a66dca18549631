"""GPT fine-tuned: a linear layer on its vector of the last token or of every token.

Radford et al. 2018, sections 3.2 and 3.3. An example of any task is one sequence of tokens or
several (see `tfnlp.tasks.TaskEncoder`), each between tokens that pretraining did not use.
"""

from typing import Any

import keras
from keras import ops

from tfnlp.layers import Dropout
from tfnlp.models.gpt import gpt
from tfnlp.models.task_heads import fold, head_of, unfold


def gpt_with_extra_tokens(
    encoder: keras.Model | None, config: dict[str, Any], extra: int = 3, **changes: Any
) -> keras.Model:
    """Return a copy of the encoder with `extra` tokens after its vocabulary.

    Their vectors have new random values, as in a new model; all other weights are copies, so that
    `encoder` is not changed.

    Args:
        encoder: a model made by `gpt(**config)`, or None: all weights are new.
        config: dict of the arguments of `gpt` that made it, `vocab_size` among them.
        extra: tokens to add.
        **changes: arguments of `gpt` to change, such as `dropout` or `dtype`; not those that change
            a weight's shape. `seq_length` is None unless given.

    Returns:
        a model as made by `gpt`.

    Raises:
        ValueError: for weights that do not fit `config` and `changes`.
    """
    vocab_size = config["vocab_size"]
    arguments = {**config, "seq_length": None, **changes, "vocab_size": vocab_size + extra}
    model = gpt(**arguments)
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
        output: "class", "label", "score", "choice", "tag", "span" or "mention".
        num_classes: K, only for "class", "label" and "tag".
        sequences: C, of an example; 1 for "tag" and "span".
        dropout: rate on h.
        initializer_range: standard deviation of the normal that fills W, w, s and e.
        seq_length: static length T, or None for any length.
        crf: with "tag" the rate of a CRF on the logits (`tfnlp.layers.CRF`), whose loss and
            decoding are up to the task; 0: none.
        window, width: with "mention", see `bert_task`.
        name: name of the model.

    Inputs: dict of int32 `input_word_ids` and `input_mask` (1 for real tokens) `[B, C, T]`, and
    except for "tag" and "span" `extract_positions` `[B, C]`; with "mention" `[B, T]`, and
    `word_positions`.

    Outputs: dict of float32 `class_logits` or `label_logits` `[B, K]`, `score` `[B]`,
    `choice_logits` `[B, C]`, `tag_logits` `[B, T, K]`, or `start_logits` and `end_logits` `[B, T]`,
    -1e9 at padding; and `sequence_output` `[B, C, T, H]` in the compute dtype, for a language model
    that is trained together with the task.

    Raises:
        ValueError: for an unknown `output`, or num_classes, sequences or a CRF that do not fit it.
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
        outputs = head.outputs(hidden, real, initializer, drop)
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
