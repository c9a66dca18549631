"""A fine-tuned model as one SavedModel: strings to labels, tags, answers; and as ids to numbers."""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfnlp.hub.modules.frozen_features import ElmoFeatures, EncoderFeatures
from tfnlp.hub.modules.task_model import TaskModel
from tfnlp.hub.saving.compact import CompactWeights
from tfnlp.hub.saving.save import save_module
from tfnlp.hub.traced import Traced, Untracked, named
from tfnlp.text.assets import lines_asset

_SEQUENCES = ("input_word_ids", "input_mask", "input_type_ids")


class FineTunedModule(Traced):
    """Module with the predictions of a `TaskModel` as a TensorFlow graph.

    `module(inputs)` takes a dict of strings and returns a dict. By task, inputs to outputs:

    classify: `text` `[B]`, for pairs `text_a` and `text_b`, to `label`, strings `[B]`, and
        `probabilities` `[B, K]`.
    labels: the same inputs to `labels`, strings `[B, K]`: those whose probability is at least their
        threshold, "" at the places of others; and `probabilities` `[B, K]`.
    similarity: the same inputs to `score` `[B]`.
    scores: the same inputs to `scores` `[B, K]`, in the order of `labels()`.
    choose: `text` `[B]` and `choices` `[B, C]` to `choice` int32 `[B]` and `probabilities`
        `[B, C]`.
    answer: `question` and `context` `[B]` to `answer`, strings `[B]`, `score`, `start` and `end`
        (bytes of the context), `null_score` `[B]`, and the best `answers` with their `scores`
        `[B, n]`; see `tfnlp.tasks.answer.answers`.
    tag: `text` `[B]`, or `tokens` `[B, T]` and `sequence_len` int32 `[B]`, to `tags`, strings
        `[B, T]`, their `probabilities` and the `tokens`, "" and 0 at padding; of texts, which are
        split as in training, also `starts` and `ends` of the tokens (characters), -1 at padding.
    roles: the same, with `predicate` int32 `[B]`, the number of the word from 0.
    coref: `text` `[B]` to `mentions`, strings `[B, K]`, their `starts` and `ends` (characters) and
        the number of their cluster in `clusters`, "" and -1 at padding.

    The signature `serving_default` takes the same by name; that with `tokens` is "tokens", of tag,
    roles and coref that with `text` also "texts".

    `module.labels()` returns the names of the classes, tags or scores, strings `[K]`; they are
    also in the asset `labels.txt`.

    Args:
        task_model: a `tfnlp.hub.TaskModel`.
        weights: `tfnlp.hub.saving.compact.CompactWeights` of its models, or None.
    """

    kind = "task"  # what the module states of itself

    def __init__(self, task_model: TaskModel, weights: CompactWeights | None = None) -> None:
        super().__init__(task_model.model if weights is None else None)
        task = task_model.task
        self._task, self._model = Untracked(task), Untracked(task_model.model)
        self._models = Untracked(models_of(task_model))
        self._reader, self._index = task_model.reader, task_model.index
        self._crf = Untracked(task_model.crf)
        # With `weights` the frozen network's own are not written.
        self._features = Untracked(task_model.features)
        self._tracked_features = task_model.features if weights is None else None
        self._weights = Untracked(weights)
        if weights is not None:
            self.variables = [v for m in models_of(task_model) for v in weights.variables_of(m)]
        self.labels_asset = lines_asset("labels.txt", task.labels)
        for inputs in task.signatures.values():
            call = self.__call__.get_concrete_function(inputs)
            if weights is not None:
                weights.check(call.graph.variables)
        self.labels.get_concrete_function()

    @tf.function(input_signature=[], autograph=False)
    def labels(self) -> tf.Tensor:
        return tf.constant(list(self._task.value.labels), "string")

    @tf.function(autograph=False)
    def __call__(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        weights, task = self._weights.value, self._task.value
        with contextlib.nullcontext() if weights is None else weights.scope(*self._models.value):
            encoded = task.encode(self._reader, inputs, whole=self._features.value is None)
            return task.decode(self._outputs(encoded), encoded, inputs, self._crf.value)

    def signatures(self) -> dict[str, Callable]:
        """Return concrete functions of named strings, for `tfnlp.hub.save`."""

        def serve(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return self.__call__(inputs)

        return {
            name: named(serve, **inputs) for name, inputs in self._task.value.signatures.items()
        }

    def _outputs(self, encoded: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the model's outputs for packed sequences."""
        model, features = self._model.value, self._features.value
        inputs = dict(encoded["inputs"])
        if isinstance(features, ElmoFeatures):
            rows = inputs["input_word_ids"]
            if "lm_layers" in model.input:
                inputs["lm_layers"] = tf.gather(features.table(encoded["words"]), rows)
            if self._index is not None:
                ids = self._index.ids(tf.concat([[""], encoded["words"].values], 0))
                inputs["word_ids"] = tf.gather(ids, rows)
            features = None
        task = self._task.value
        return task_outputs(model, inputs, task.sequences, features, task.window)


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


def models_of(task_model: TaskModel) -> list[keras.Model]:
    """Return the model of a task, and the frozen one that it reads the layers of."""
    features = task_model.features
    frozen = [] if features is None or features.encoder is None else [features.encoder]
    return [task_model.model, *frozen]


def export_fine_tuned(
    directory: str | os.PathLike,
    task_model: TaskModel,
    overwrite: bool = False,
    weights: str | None = None,
    family: str | None = None,
    examples: Sequence[dict[str, Any]] | None = None,
) -> str:
    """Write `FineTunedModule(task_model)` as a SavedModel; return its path.

    Args:
        directory, overwrite: see `tfnlp.hub.save`.
        task_model: the fine-tuned model.
        weights: "bfloat16" or "int8", see `tfnlp.hub.export`; the size and the error are printed.
        family: name of the family of the model that was fine-tuned.
        examples: rows of inputs that the module carries, in JSON, to be tried out with.
    """
    features = task_model.features
    if weights is not None and features is not None and features.encoder is None:
        raise ValueError(
            f"weights={weights!r} is not for a network on the layers of a loaded SavedModel, "
            "whose weights it can't replace; export it in float32"
        )
    return save_module(
        lambda stored: FineTunedModule(task_model, stored),
        directory,
        overwrite,
        weights,
        models_of(task_model),
        family=family,
        task=task_model.task.config(),
        examples=examples or None,
    )
