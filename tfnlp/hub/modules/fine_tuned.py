"""A fine-tuned model as one SavedModel, from strings to labels, tags and answers."""

import contextlib
import os
from collections.abc import Callable

import keras
import tensorflow as tf

from tfnlp.hub.modules.frozen_features import ElmoFeatures
from tfnlp.hub.modules.task_graph import DECODED, ids_function, task_outputs
from tfnlp.hub.modules.task_model import TaskModel
from tfnlp.hub.saving.compact import CompactWeights
from tfnlp.hub.saving.graphs import NO_GRAPHS, Graphs
from tfnlp.hub.saving.keras_module import without_seeds
from tfnlp.hub.saving.save import save_module
from tfnlp.hub.untracked import Untracked
from tfnlp.models.task_heads import crf_of
from tfnlp.tasks.decoding import (
    decode_answers,
    decode_tags,
    span_candidates,
    word_logits,
)
from tfnlp.tasks.task_spec import TaskSpec
from tfnlp.text.assets import lines_asset


def _strings(name: str, rank: int = 1) -> tf.TensorSpec:
    return tf.TensorSpec([None] * rank, "string", name=name)


class FineTunedModule(tf.__internal__.tracking.AutoTrackable):
    """Module with the predictions of a `TaskModel` as a TensorFlow graph.

    `module(inputs)` takes a dict of strings and returns a dict. By task, inputs to outputs:

    classify: `text` `[B]`, for pairs `text_a` and `text_b`, to `label`, strings `[B]`, and
        `probabilities` `[B, K]`.
    labels: the same inputs to `labels`, strings `[B, K]`: those whose probability is at least their
        threshold, "" at the places of others; and `probabilities` `[B, K]`.
    similarity: the same inputs to `score` `[B]`.
    choose: `text` `[B]` and `choices` `[B, C]` to `choice` int32 `[B]` and `probabilities`
        `[B, C]`.
    answer: `question` and `context` `[B]` to `answer`, strings `[B]`, `score`, `start` and `end`
        (bytes of the context), `null_score` `[B]`, and the best `answers` with their `scores`
        `[B, n]`; see `tfnlp.tasks.decoding.answers`.
    tag: `text` `[B]`, split at spaces, or `tokens` `[B, T]` and `sequence_len` int32 `[B]`, to
        `tags`, strings `[B, T]`, their `probabilities` and the `tokens`, "" and 0 at padding.
    roles: the same, with `predicate` int32 `[B]`, the number of the word from 0.

    The signature `serving_default` takes the same by name; the one with `tokens` is "tokens".

    `module.labels()` returns the names of the classes or tags, strings `[K]`; they are also in the
    asset `labels.txt`.

    Args:
        task_model: a `tfnlp.hub.TaskModel`.
        weights: `tfnlp.hub.saving.compact.CompactWeights` of its models, or None.
    """

    def __init__(self, task_model: TaskModel, weights: CompactWeights | None = None) -> None:
        super().__init__()
        spec = task_model.spec
        self._spec, self._model = (lambda: spec), Untracked(task_model.model)
        self._models = lambda: models_of(task_model)
        self._encoder, self._index = task_model.encoder, task_model.index
        # With `weights` the frozen network's own are not written.
        self._features = Untracked(task_model.features)
        self._tracked_features = task_model.features if weights is None else None
        self._weights = Untracked(weights)
        if weights is None:
            self.variables = [v.value for v in without_seeds(task_model.model)]
            self.trainable_variables = [v.value for v in task_model.model.trainable_variables]
        else:
            self.variables = [v for m in models_of(task_model) for v in weights.variables_of(m)]
            self.trainable_variables = []
        self.regularization_losses = []
        self.labels_asset = lines_asset("labels.txt", spec.labels)
        self._inputs = lambda: _inputs(spec)
        for spec_of_inputs in self._inputs().values():
            call = self.__call__.get_concrete_function(spec_of_inputs)
            if weights is not None:
                weights.check(call.graph.variables)
        self.labels.get_concrete_function()

    @tf.function(input_signature=[], autograph=False)
    def labels(self) -> tf.Tensor:
        return tf.constant(list(self._spec().labels), "string")

    @tf.function(autograph=False)
    def __call__(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        with contextlib.ExitStack() as stack:
            if self._weights.value is not None:
                stack.enter_context(self._weights.value.scope(*self._models()))
            spec = self._spec()
            decode = DECODED.get(spec.output)
            if decode is not None:
                return decode(self._outputs(self._read(inputs)), spec)
            return self._answer(inputs) if spec.output == "span" else self._tag(inputs)

    def signatures(self) -> dict[str, Callable]:
        """Return concrete functions of named strings, for `tfnlp.hub.save`."""

        def serve(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return self.__call__(inputs)

        return {
            name: tf.function(serve, autograph=False).get_concrete_function(**inputs)
            for name, inputs in self._inputs().items()
        }

    def _read(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return packed sequences of texts, pairs or choices."""
        if "choices" in inputs:
            return self._encoder.choices(inputs["text"], inputs["choices"])
        names = ["text"] if self._spec().texts == 1 else ["text_a", "text_b"]
        return self._encoder.texts([inputs[name] for name in names])

    def _answer(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        spec, contexts = self._spec(), inputs["context"]
        encoded = self._encoder.questions(inputs["question"], contexts)
        outputs = self._outputs(encoded)
        candidates = span_candidates(
            outputs["start_logits"], outputs["end_logits"], encoded, spec.max_answer
        )
        words = (encoded["starts"], encoded["ends"])
        return decode_answers(candidates, encoded["window_row"], contexts, words, spec)

    def _tag(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        if "text" in inputs:
            words = tf.strings.split(inputs["text"])
        else:
            width = tf.shape(inputs["tokens"])[1]
            lengths = tf.clip_by_value(inputs["sequence_len"], 0, width)
            words = tf.RaggedTensor.from_tensor(inputs["tokens"], lengths)
        words = words.with_row_splits_dtype(tf.int64)
        if "predicate" in inputs:
            encoded = self._encoder.roles(words, inputs["predicate"])
        else:
            encoded = self._encoder.words(words)
        outputs = self._outputs(encoded)
        flat = word_logits(outputs["tag_logits"], encoded, tf.size(words.values))
        found = decode_tags(flat, words.row_splits, self._spec().labels, crf_of(self._model.value))
        found["tokens"] = words.to_tensor("")
        if "tokens" in inputs:  # as wide as the input
            more = [[0, 0], [0, width - tf.shape(found["tags"])[1]]]
            found = {
                name: tf.pad(x, more, constant_values=_PADDING[x.dtype])
                for name, x in found.items()
            }
        return found

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
        return task_outputs(model, inputs, self._spec().sequences, features)


_PADDING = {tf.string: "", tf.float32: 0.0}


def _inputs(spec: TaskSpec) -> dict[str, dict[str, tf.TensorSpec]]:
    """Return the inputs of each signature."""
    if spec.output == "tag":
        lengths = tf.TensorSpec([None], "int32", name="sequence_len")
        more = {}
        if spec.task == "roles":
            more["predicate"] = tf.TensorSpec([None], "int32", name="predicate")
        return {
            "serving_default": {"text": _strings("text"), **more},
            "tokens": {"tokens": _strings("tokens", 2), "sequence_len": lengths, **more},
        }
    if spec.task == "answer":
        return {"serving_default": {name: _strings(name) for name in ("question", "context")}}
    if spec.task == "choose":
        choices = tf.TensorSpec([None, spec.choices], "string", name="choices")
        return {"serving_default": {"text": _strings("text"), "choices": choices}}
    names = ["text"] if spec.texts == 1 else ["text_a", "text_b"]
    return {"serving_default": {name: _strings(name) for name in names}}


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
    graphs: Graphs = NO_GRAPHS,
    title: str = "the model",
) -> str:
    """Write `FineTunedModule(task_model)` as a SavedModel; return its path.

    Args:
        directory, overwrite: see `tfnlp.hub.save`.
        task_model: the fine-tuned model.
        weights: "bfloat16" or "int8", see `tfnlp.hub.export`; the size and the error are printed.
        graphs: graphs to write too. LiteRT's reads sequences of `max_length`, ONNX's of any length.
        title: of the model, for messages.
    """
    graphs.check(directory, overwrite)
    stored, features = None, task_model.features
    if weights is not None:
        if features is not None and features.encoder is None:
            raise ValueError(
                f"weights={weights!r} is not for a network on the layers of a loaded SavedModel, "
                "whose weights it can't replace; export it in float32"
            )
        stored = CompactWeights(models_of(task_model), weights)

    def function_of(kind: str) -> Callable:
        return ids_function(task_model, task_model.spec.max_length if kind == "litert" else None)

    with graphs.written(function_of, title, weights, overwrite):
        save_module(lambda: FineTunedModule(task_model, stored), directory, overwrite)
    if stored is not None:
        stored.report(directory, task_model.model)
    return os.fspath(directory)
