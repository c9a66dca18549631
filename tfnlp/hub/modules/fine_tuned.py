"""A fine-tuned model as one SavedModel, from strings to labels, tags and answers."""

import os
import shutil
import tempfile
import weakref

import tensorflow as tf

from tfnlp.hub.modules.frozen_features import ElmoFeatures
from tfnlp.hub.saving.module import Hidden, without_seeds
from tfnlp.hub.saving.save import as_saved, check_free, save
from tfnlp.tasks.decoding import answers, best_spans, best_tags, span_candidates, word_logits


def _strings(name, rank=1):
    return tf.TensorSpec([None] * rank, "string", name=name)


class FineTunedModule(tf.__internal__.tracking.AutoTrackable):
    """What a `TaskModel` predicts, inside the TensorFlow graph.

    `module(inputs)` takes a dict of strings and returns a dict. By task, from what to what:

    classify: `text` `[B]`, of pairs `text_a` and `text_b`, to `label`, strings `[B]`, and
        `probabilities` `[B, K]`.
    similarity: the same to `score` `[B]`.
    choose: `text` `[B]` and `choices` `[B, C]` to `choice` int32 `[B]` and `probabilities`
        `[B, C]`.
    answer: `question` and `context` `[B]` to `answer`, strings `[B]`, `score`, `start` and `end`
        (bytes of the context), `null_score` `[B]`, and the best `answers` with their `scores`
        `[B, n]`; see `tfnlp.tasks.decoding.answers`.
    tag: `text` `[B]`, split at spaces, or `tokens` `[B, T]` and `sequence_len` int32 `[B]`, to
        `tags`, strings `[B, T]`, their `probabilities` and the `tokens`, "" and 0 at padding.

    The signature `serving_default` takes the same by name; that of `tokens` is called "tokens".

    `module.labels()` gives the names of the classes or tags, strings `[K]`; they also travel as
    the asset `labels.txt`.

    Args:
        task_model: a `tfnlp.hub.TaskModel`.
    """

    def __init__(self, task_model):
        super().__init__()
        spec = task_model.spec
        self._spec, self._model = (lambda: spec), Hidden(task_model.model)
        self._encoder, self._index = task_model.encoder, task_model.index
        self._features = task_model.features
        self._reads_sequences = lambda: task_model.reads_sequences
        self.variables = [v.value for v in without_seeds(task_model.model)]
        self.trainable_variables = [v.value for v in task_model.model.trainable_variables]
        self.regularization_losses = []
        self.labels_asset = _labels_asset(spec.labels)
        self._inputs = lambda: _inputs(spec)
        for spec_of_inputs in self._inputs().values():
            self.__call__.get_concrete_function(spec_of_inputs)
        self.labels.get_concrete_function()

    @tf.function(input_signature=[], autograph=False)
    def labels(self):
        return tf.constant(list(self._spec().labels), "string")

    @tf.function(autograph=False)
    def __call__(self, inputs):
        return getattr(self, f"_{self._spec().task}")(inputs)

    def signatures(self):
        """Concrete functions of named strings, for `tfnlp.hub.saving.save`."""

        def serve(**inputs):
            return self.__call__(inputs)

        return {
            name: tf.function(serve, autograph=False).get_concrete_function(**inputs)
            for name, inputs in self._inputs().items()
        }

    def _classify(self, inputs):
        outputs = self._outputs(self._encoder.texts(self._texts(inputs)))
        probabilities = tf.nn.softmax(outputs["class_logits"])
        best = tf.argmax(probabilities, -1)
        return {"label": tf.gather(self.labels(), best), "probabilities": probabilities}

    def _similarity(self, inputs):
        score = self._outputs(self._encoder.texts(self._texts(inputs)))["score"]
        return {"score": score * self._spec().deviation + self._spec().mean}

    def _choose(self, inputs):
        outputs = self._outputs(self._encoder.choices(inputs["text"], inputs["choices"]))
        probabilities = tf.nn.softmax(outputs["choice_logits"])
        best = tf.argmax(probabilities, -1, output_type="int32")
        return {"choice": best, "probabilities": probabilities}

    def _answer(self, inputs):
        spec = self._spec()
        encoded = self._encoder.questions(inputs["question"], inputs["context"])
        outputs = self._outputs(encoded)
        candidates = span_candidates(
            outputs["start_logits"], outputs["end_logits"], encoded, spec.max_answer
        )
        rows = tf.size(inputs["question"])
        spans = best_spans(candidates, encoded["window_row"], rows)
        return answers(
            spans,
            inputs["context"],
            encoded["starts"],
            encoded["ends"],
            spec.unanswerable,
            spec.threshold,
        )

    def _tag(self, inputs):
        if "text" in inputs:
            words = tf.strings.split(inputs["text"])
        else:
            width = tf.shape(inputs["tokens"])[1]
            lengths = tf.clip_by_value(inputs["sequence_len"], 0, width)
            words = tf.RaggedTensor.from_tensor(inputs["tokens"], lengths)
        words = words.with_row_splits_dtype(tf.int64)
        labels = self._spec().labels
        encoded = self._encoder.words(words)
        outputs = self._outputs(encoded)
        flat = word_logits(outputs["tag_logits"], encoded, tf.size(words.values))
        lengths = tf.cast(words.row_lengths(), "int32")
        logits = words.with_values(flat).to_tensor()  # [B, W, K]
        tags, probabilities = best_tags(logits, lengths, labels)
        real = tf.sequence_mask(lengths, tf.shape(tags)[1])
        found = {
            "tags": tf.where(real, tf.gather(self.labels(), tags), ""),
            "probabilities": tf.where(real, probabilities, 0.0),
            "tokens": words.to_tensor(""),
        }
        if "tokens" in inputs:  # as wide as what came
            more = [[0, 0], [0, width - tf.shape(tags)[1]]]
            found = {
                name: tf.pad(x, more, constant_values=_ZERO[x.dtype]) for name, x in found.items()
            }
        return found

    def _texts(self, inputs):
        names = ["text"] if self._spec().texts == 1 else ["text_a", "text_b"]
        return [inputs[name] for name in names]

    def _outputs(self, encoded):
        """The model's outputs for packed sequences."""
        model, inputs = self._model.value, dict(encoded["inputs"])
        if isinstance(self._features, ElmoFeatures):
            rows = inputs["input_word_ids"]
            inputs["lm_layers"] = tf.gather(self._features.table(encoded["words"]), rows)
            if self._index is not None:
                ids = self._index.ids(tf.concat([[""], encoded["words"].values], 0))
                inputs["word_ids"] = tf.gather(ids, rows)
        elif self._features is not None:
            flat = {name: tf.reshape(x, [-1, tf.shape(x)[-1]]) for name, x in inputs.items()}
            layers = self._features.layers(flat)  # [N*C, T, L, D]
            shape = tf.concat([tf.shape(inputs["input_mask"]), tf.shape(layers)[2:]], 0)
            inputs["lm_layers"] = tf.reshape(layers, shape)
        if self._reads_sequences():
            count = self._spec().sequences
            inputs["extract_positions"] = tf.reshape(encoded["null_positions"], [-1, count])
            inputs = {
                name: tf.reshape(x, [-1, count, tf.shape(x)[-1]]) if name in _SEQUENCES else x
                for name, x in inputs.items()
            }
        return model(
            {name: tf.ensure_shape(inputs[name], x.shape) for name, x in model.input.items()},
            training=False,
        )


_ZERO = {tf.string: "", tf.float32: 0.0}
_SEQUENCES = ("input_word_ids", "input_mask", "input_type_ids")


def _inputs(spec):
    """What the module takes, by the names of its signatures."""
    if spec.task == "tag":
        lengths = tf.TensorSpec([None], "int32", name="sequence_len")
        return {
            "serving_default": {"text": _strings("text")},
            "tokens": {"tokens": _strings("tokens", 2), "sequence_len": lengths},
        }
    if spec.task == "answer":
        return {"serving_default": {name: _strings(name) for name in ("question", "context")}}
    if spec.task == "choose":
        choices = tf.TensorSpec([None, spec.choices], "string", name="choices")
        return {"serving_default": {"text": _strings("text"), "choices": choices}}
    names = ["text"] if spec.texts == 1 else ["text_a", "text_b"]
    return {"serving_default": {name: _strings(name) for name in names}}


def _labels_asset(labels):
    """The labels as an asset, in a file of their own."""
    folder = tempfile.mkdtemp(prefix="tfnlp_labels_")
    path = os.path.join(folder, "labels.txt")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("".join(f"{label}\n" for label in labels))
    asset = tf.saved_model.Asset(path)
    weakref.finalize(asset, _remove_folder, folder, os.getpid())
    return asset


def _remove_folder(folder, owner):
    if os.getpid() == owner:  # a forked child must not delete its parent's file
        shutil.rmtree(folder, ignore_errors=True)


def export_fine_tuned(directory, task_model, overwrite=False):
    """Writes `FineTunedModule(task_model)` as a SavedModel; returns its path.

    Raises:
        OSError: see `tfnlp.hub.saving.save`.
    """
    check_free(directory, overwrite)
    with as_saved():
        module = FineTunedModule(task_model)
        signatures = module.signatures()
    save(module, directory, signatures, overwrite)
    return os.fspath(directory)
