"""A task's model as a function of ids, for other runtimes, and the files beside such a graph."""

import inspect
import os
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfnlp.checkpoints.formats.json_files import write_json
from tfnlp.files import write_text
from tfnlp.hub.modules import graph_example
from tfnlp.hub.modules.frozen_features import EncoderFeatures
from tfnlp.hub.traced import named

_SEQUENCES = ("input_word_ids", "input_mask", "input_type_ids")


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
    shape = [None, length] if task.sequences == 1 else [None, task.sequences, length]

    def outputs(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        found = dict(task_outputs(model, inputs, task.sequences, features))
        found.pop("sequence_output", None)  # of a GPT, for the loss of its language model
        for name, x in task.decoded(found).items():
            if isinstance(x, tf.Tensor) and x.dtype.is_floating:
                found[name] = x
        return found

    specs = {n: tf.TensorSpec(shape, "int32", name=n) for n in _SEQUENCES if n in read}
    return named(outputs, **specs)


def write_task_files(
    folder: str, file: str, task_model: Any, write_tokenizer: Callable[[str], None] | None
) -> None:
    """Write labels, thresholds, transitions, vocabulary and example into a graph's folder.

    `write_tokenizer` is a function of the folder that writes `tokenizer.json`; None: there is none,
    and no example then.
    """
    task = task_model.task
    if task.labels:
        write_text(os.path.join(folder, "labels.txt"), "".join(f"{x}\n" for x in task.labels))
    for name, content in task.files(task_model.crf).items():
        write_json(os.path.join(folder, name), content)
    if write_tokenizer is None:
        return
    write_tokenizer(folder)
    write_example(
        folder,
        file,
        task.max_length,
        pairs=task.pairs,
        sequences=task.sequences,
        head=task_model.reader.head,
        **task.example_settings,
    )


def write_example(folder: str, file: str, length: int, **settings: Any) -> None:
    """Write `example.py`, a program that calls a graph with texts, if there is a `tokenizer.json`.

    See `SETTINGS` of `tfnlp.hub.modules.graph_example`.
    """
    if not os.path.exists(os.path.join(folder, "tokenizer.json")):
        return
    settings = dict(graph_example.SETTINGS, file=file, length=length, **settings)
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in settings.items())
    program = re.sub(
        r"(?<=SETTINGS: dict\[str, Any\] = \{\n).*?(?=\}\n)",
        lambda _: lines,
        inspect.getsource(graph_example),
        count=1,
        flags=re.DOTALL,
    )
    write_text(os.path.join(folder, "example.py"), program)
