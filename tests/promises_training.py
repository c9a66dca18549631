"""Calls that break the rules of tasks and training, as in `promises_table.py`."""

import functools

import keras

from tests.promises_models import calls
from tfnlp import tasks, training
from tfnlp.models.task_heads import tag_outputs

NAN, INF = float("nan"), float("inf")


@functools.cache
def model(**outputs):
    """Return a model with an output of each name and size."""
    x = keras.Input((2,), name="x")
    return keras.Model({"x": x}, {k: keras.layers.Dense(n)(x) for k, n in outputs.items()})


@functools.cache
def other():
    return model(other=1)


def tagger():
    """Return a model of two tags with a CRF."""
    x = keras.Input((5, 3), name="x")
    return keras.Model({"x": x}, tag_outputs(x, 2, "zeros", crf=1.0))


def trainer(**arguments):
    given = {"optimizer": "adamw", "learning_rate": 1e-3, "loss": "mse", **arguments}
    task = given.pop("task", None) or keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    return training.Trainer(task, **given)


def without(task, output):
    return {f"a model without `{output}`": [(f"`{output}`", lambda: task(other()))]}


POSITIVE = "a peak that is not positive and finite"
PEAKS = dict(total_steps=10, warmup_steps=1)
DECAYING = "warmup_steps that are not from 0 to total_steps"
GENERATED = dict(class_logits=2, sequence_output=2)


def schedule_cases(function):
    """Return the cases of a schedule that decays."""
    return {
        POSITIVE: [(f"peak={x}", functools.partial(function, x, 10)) for x in (0, NAN, INF)],
        DECAYING: [
            ("warmup_steps=11", lambda: function(1.0, 10, 11)),
            ("warmup_steps=-1", lambda: function(1.0, 10, -1)),
        ],
    }


def adagrad_cases(optimizer):
    return {
        "an initial_accumulator that is not positive": calls(optimizer, {}, initial_accumulator=0),
        "a weight_decay that is negative": calls(optimizer, {}, weight_decay=-1),
    }


TRAINING = {
    "Optimizer": {
        "a weight_decay that is negative": [
            *calls(training.AdamW, {}, weight_decay=-0.1),
            *calls(training.LAMB, {}, weight_decay=NAN),
        ],
    },
    "Optimizer.build": {
        "an exclude pattern that matches no variable": [
            ("'LayerNorm'", lambda: training.AdamW(exclude=["LayerNorm"]).build(other().variables)),
        ],
    },
    "Adagrad": adagrad_cases(training.Adagrad),
    "RowwiseAdagrad": adagrad_cases(training.RowwiseAdagrad),
    "optimizer": {"another name": [("'sgdd'", lambda: training.optimizer("sgdd"))]},
    "constant": {
        POSITIVE: [(f"peak={x}", functools.partial(training.constant, x)) for x in (0, NAN, INF)],
        "negative warmup_steps": [("warmup_steps=-1", lambda: training.constant(1.0, -1))],
    },
    "linear": schedule_cases(training.linear),
    "cosine": schedule_cases(training.cosine),
    "inverse_sqrt": {
        POSITIVE: [("peak=0", lambda: training.inverse_sqrt(0, 1))],
        "warmup_steps below 1": [("warmup_steps=0", lambda: training.inverse_sqrt(1.0, 0))],
    },
    "noam": {
        "a hidden_size or warmup_steps below 1": [
            ("hidden_size=0", lambda: training.noam(0, 10)),
            ("warmup_steps=0", lambda: training.noam(512, 0)),
        ],
        "a scale that is not positive": [("scale=-1", lambda: training.noam(512, 10, -1))],
    },
    "schedule": {
        "another name": [("'stairs'", lambda: training.schedule("stairs", 1.0, 10))],
        "arguments that the schedule refuses": [
            ("peak=0", lambda: training.schedule("cosine", 0, 10)),
        ],
    },
    "LayerRates": {
        "an argument out of its range": [
            *calls(training.LayerRates, {}, decay=0, frozen=-1, unfreeze_every=0),
            *calls(training.LayerRates, {}, decay=NAN),
        ],
    },
    "layer_groups": {
        "no variable belongs to a block": [
            ("`layer_0`", lambda: training.layer_groups(other().variables)),
        ],
    },
    "LossScaling": {
        "factors that are no powers of two or in another order, or an interval below 1": [
            *calls(training.LossScaling, {}, initial=1000.0, least=0.0, most=INF, interval=0),
            *calls(training.LossScaling, {}, initial=NAN, most=2.0**14),
            ("initial=0.5", lambda: training.LossScaling(initial=0.5)),
        ],
    },
    "Checkpoints": {"`keep` < 1": [("keep=0", lambda: training.Checkpoints("nowhere", {}, 0))]},
    "Trainer": {
        "arguments out of range or of another type": [
            *calls(trainer, {}, accumulation=0, steps_per_call=0, clip_norm=-1, loss_scale=0),
            *calls(trainer, {}, clip_norm=NAN, loss_scale=NAN, learning_rate=INF, keep=0),
            *calls(trainer, {}, learning_rate="x", optimizer="sgdd"),
            ("optimizer must", lambda: trainer(optimizer=3)),
            ("a fixed factor of the loss is loss_scale", lambda: trainer(loss_scaling=2.0)),
            ("task must", lambda: trainer(task=3)),
            ("without loss", lambda: trainer(loss=None)),
        ],
        "a Keras optimizer that clips, accumulates or scales by itself": [
            (name, functools.partial(trainer, optimizer=keras.optimizers.SGD(**{name: value})))
            for name, value in dict(
                clipnorm=1.0, global_clipnorm=1.0, gradient_accumulation_steps=2, use_ema=True,
                loss_scale_factor=8.0,
            ).items()
        ],
    },
}  # fmt: skip
TASKS = {
    "BertPretraining": {
        "a model without any of these outputs": [
            ("`mlm_logits`", lambda: tasks.BertPretraining(other())),
        ],
    },
    "ElectraPretraining": {
        "a model without `mlm_logits` and `discriminator_logits`": [
            ("`mlm_logits`", lambda: tasks.ElectraPretraining(other())),
        ],
    },
    "GPTPretraining": without(tasks.GPTPretraining, "lm_logits"),
    "NNLMPretraining": without(tasks.NNLMPretraining, "losses"),
    "Word2Vec": without(tasks.Word2Vec, "losses"),
    "Translation": {
        **without(tasks.Translation, "lm_logits"),
        "a label_smoothing below 0, or 1 and above": calls(
            tasks.Translation, dict(model=model(lm_logits=2)), label_smoothing=1.0
        ),
    },
    "FineTuning": {
        "a model that has the outputs of no kind, or of several": [
            ("score", lambda: tasks.FineTuning(other())),
            ("score", lambda: tasks.FineTuning(model(score=1, class_logits=2))),
        ],
        "weights or smoothing that are out of range or that its kind does not have": [
            *calls(tasks.FineTuning, dict(model=model(class_logits=2)), label_smoothing=1.0),
            *calls(tasks.FineTuning, dict(model=model(class_logits=2)), class_weights=[1.0, 0.0]),
            *calls(tasks.FineTuning, dict(model=model(score=1)), class_weights=[1.0]),
        ],
        "tags with a CRF that have them": [
            *calls(tasks.FineTuning, dict(model=tagger()), label_smoothing=0.1),
            ("class_weights", lambda: tasks.FineTuning(tagger(), class_weights=[1.0, 2.0])),
        ],
    },
    "GPTFineTuning": {
        "a negative `lm_weight`": [
            *calls(tasks.GPTFineTuning, dict(model=model(**GENERATED)), lm_weight=-1),
            *calls(tasks.GPTFineTuning, dict(model=model(**GENERATED)), lm_weight=NAN),
        ],
        "a model of other outputs": [
            ("`sequence_output`", lambda: tasks.GPTFineTuning(model(class_logits=2))),
        ],
    },
    "TaskDistillation": {
        "a weight out of range, a temperature that is not positive, another task, or "
        "one with a CRF": [
            *calls(tasks.TaskDistillation, dict(task=tasks.FineTuning(model(score=1))), weight=0),
            *calls(
                tasks.TaskDistillation, dict(task=tasks.FineTuning(model(score=1))), temperature=0
            ),
            ("task=KerasTask", lambda: tasks.TaskDistillation(tasks.KerasTask(other(), "mse"))),
            ("a CRF", lambda: tasks.TaskDistillation(tasks.FineTuning(tagger()))),
        ],
    },
    "KerasTask": {
        "another model or loss": [
            ("model must", lambda: tasks.KerasTask(3, "mse")),
            *calls(tasks.KerasTask, dict(model=other()), loss="msx"),
        ],
    },
    "smoothed_cross_entropy": {
        "an epsilon out of range": [
            (
                f"epsilon={x}",
                functools.partial(tasks.smoothed_cross_entropy, None, None, x),
            )
            for x in (-0.1, 1.0, NAN)
        ],
    },
}
