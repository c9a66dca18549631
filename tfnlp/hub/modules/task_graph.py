"""A task's model as a function of ids, which other runtimes can compute."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfnlp.hub.modules.frozen_features import EncoderFeatures


def task_outputs(
    model: Any,
    inputs: dict[str, tf.Tensor],
    sequences: int,
    features: EncoderFeatures | None,
    window: int = 0,
) -> dict[str, tf.Tensor]:
    """Return the outputs of a task's model for packed sequences.

    Inputs are int32 `[B, T]`, or `[B, C, T]` with C `sequences` an example; of an ELMo also
    `lm_layers`. `features` are the `EncoderFeatures` of a network on them, or None. Their encoder
    reads the sequences in parts of a `window`, if there is one.
    """
    inputs = dict(inputs)
    if features is not None:
        flat = {name: tf.reshape(x, [-1, window or tf.shape(x)[-1]]) for name, x in inputs.items()}
        layers = features.layers(flat)  # [B*C, T, L, D]
        shape = tf.concat([tf.shape(inputs["input_mask"]), tf.shape(layers)[2:]], 0)
        inputs["lm_layers"] = tf.reshape(layers, shape)
    if len(model.input["input_mask"].shape) == 3:
        inputs = {
            name: tf.reshape(x, [-1, sequences, tf.shape(x)[-1]]) if name in _SEQUENCES else x
            for name, x in inputs.items()
        }
        # The token that a GPT looks at is the last one.
        inputs["extract_positions"] = tf.reduce_sum(inputs["input_mask"], -1) - 1  # [B, C]
    return model(
        {name: tf.ensure_shape(inputs[name], x.shape) for name, x in model.input.items()},
        training=False,
    )


_SEQUENCES = ("input_word_ids", "input_mask", "input_type_ids")


def ids_function(task_model: Any, length: int | None = None) -> Callable:
    """Return a concrete function of ids to numbers.

    It takes int32 `input_word_ids`, `input_mask` and, if the model reads them, `input_type_ids`,
    `[B, T]`, or `[B, C, T]` with C sequences an example, packed as `task_model.reader` does; T is
    `length`, None: open. It returns the outputs of the model and those predictions that are
    numbers: `probabilities` of classes, labels and choices, and scores in the units of the training
    data.
    """
    task, model, features = task_model.task, task_model.model, task_model.features
    read = model.input if features is None else features.encoder.input
    names = [name for name in _SEQUENCES if name in read]
    shape = [None, length] if task.sequences == 1 else [None, task.sequences, length]

    def outputs(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        found = dict(task_outputs(model, inputs, task.sequences, features))
        found.pop("sequence_output", None)  # of a GPT, for the loss of its language model
        for name, x in task.decoded(found).items():
            if isinstance(x, tf.Tensor) and x.dtype.is_floating:
                found[name] = x
        return found

    specs = {name: tf.TensorSpec(shape, "int32", name=name) for name in names}
    return tf.function(outputs, autograph=False).get_concrete_function(**specs)
