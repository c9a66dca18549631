"""What the blocks of an encoder look at: of any inputs, and of a mistake of a task."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfnlp.hub.modules.fill import tokens_and_texts
from tfnlp.hub.modules.task_model import TaskModel
from tfnlp.layers import TransformerBlock
from tfnlp.models.first_position import position_bias
from tfnlp.runs.page import EXAMPLES, worst_first
from tfnlp.tasks import report
from tfnlp.tasks.sequences import EncodedExamples, encode_examples

_MOST = 32  # tokens whose names fit beside a map on a phone
_AT_ONCE = 16  # examples that are encoded to find a short one


def worst_attention(
    made: TaskModel, examples: Sequence[Any], rows: Sequence[Mapping[str, Any]]
) -> report.Figure | None:
    """Draw what the tokens of the worst mistake look at, in one that is short enough.

    `rows` are what `Task.report_row` returns of the examples. Where no mistake is, it is another
    example. None: all examples are longer, or the model has no blocks with attention.
    """
    encoder = encoder_of(made)
    if encoder is None:
        return None
    task = made.task
    order = worst_first(task, rows)[:EXAMPLES]
    for start in range(0, len(order), _AT_ONCE):
        some = order[start : start + _AT_ONCE]
        encoded = encode_examples(
            made.reader, task, [examples[n] for n in some], whole=made.features is None
        )
        alone = np.bincount(encoded.row)[encoded.row] == 1  # not a window of a longer text
        short = np.flatnonzero(alone & (encoded.sizes <= min(_MOST, task.window or _MOST)))
        if short.size:
            break
    else:
        return None
    inputs = first_inputs(encoder, encoded, short[0])
    means = [np.mean(x[0], 0, dtype="float64") for x in encoder_attention(encoder, inputs)]
    return report.attention(
        "mistake" if task.is_wrong(rows[some[encoded.row[short[0]]]]) else "example",
        shown_tokens(made.reader.tokenizer, inputs["input_word_ids"][0]),
        np.round(means, 3).tolist(),
    )


def encoder_of(made: TaskModel) -> keras.Model | None:
    """Return the encoder of a task, whole or frozen; None: it has no blocks that are seen."""
    parts = made.model.layers if made.features is None else [made.features.encoder]
    models = (x for x in parts if isinstance(x, keras.Model))
    return next((x for x in models if any(isinstance(y, TransformerBlock) for y in x.layers)), None)


def first_inputs(
    encoder: keras.Model, encoded: EncodedExamples, number: int = 0
) -> dict[str, np.ndarray]:
    """Return the inputs of a sequence, of several choices of the first one: int32 `[1, T]`."""
    found = {name: np.atleast_2d(encoded.inputs[name][number])[:1] for name in encoder.input}
    count = int(found["input_mask"].sum())  # a choice is as long as the longest one
    return {name: x[:, :count] for name, x in found.items()}


def encoder_attention(encoder: keras.Model, inputs: dict[str, Any]) -> list[np.ndarray]:
    """Return the probabilities of each block of an encoder or a GPT, float32 `[B, N, T, T]`.

    Each block computes again, and whole, what it looks at: the model that is trained has no other
    output for it.
    """
    outputs = encoder({name: inputs[name] for name in encoder.input}, training=False)
    states = [outputs["embedding_output"], *outputs["encoder_outputs"]]  # [B, T, H] each
    bias = position_bias(encoder)
    added = {} if bias is None else {"position_bias": bias(states[0])}
    real = keras.ops.not_equal(inputs["input_mask"], 0)
    return scores_of(encoder.output["encoder_outputs"], states, mask=real, **added)


def scores_of(
    outputs: Sequence[keras.KerasTensor], states: Sequence[Any], **given: Any
) -> list[np.ndarray]:
    """Return the probabilities of the block of each output, whose input is among the states."""
    pairs = zip(blocks_of(outputs), states, strict=False)
    return [np.asarray(block(x, return_scores=True, **given)[1]) for block, x in pairs]


def blocks_of(outputs: Sequence[keras.KerasTensor]) -> list[TransformerBlock]:
    """Return the block that makes each output, before a norm that may follow the last one."""
    operations = [x._keras_history.operation for x in outputs]
    return [x if isinstance(x, TransformerBlock) else blocks_of([x.input])[0] for x in operations]


def shown_tokens(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the tokens of ids as people read them; those of a task alone, GPT's, as numbers."""
    known = [n for n in ids if n < tokenizer.vocab_size]
    tokens, _ = tokens_and_texts(tokenizer, tf.constant(known, "int32"))
    names = (name.decode("utf-8", "replace") for name in tokens.numpy())
    names = (name.removesuffix("</w>").strip() for name in names)  # GPT's end of a word
    return [next(names) if n < tokenizer.vocab_size else f"[{n}]" for n in ids]
