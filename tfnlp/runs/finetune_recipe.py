"""The numbers of a fine-tuning run, and the trainer that they make."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfnlp import tasks
from tfnlp.data.labelled.examples import class_name
from tfnlp.families.sizes import (
    FEW_WEIGHTS,
    depth,
    learning_rate,
    max_positions,
    recorded,
    width,
)
from tfnlp.runs.finetune_examples import listed
from tfnlp.settings.finetune import FinetuneSettings
from tfnlp.settings.options import default_of
from tfnlp.tasks import HeadTask
from tfnlp.training import is_compiled

_LEAST = 300  # updates, in up to so many epochs (Mosbach et al. 2021: 20 of small sets)
_MOST_EPOCHS = 20.0


def settings_of(
    config: FinetuneSettings, backbone: Any, features: str | None, examples: int
) -> dict[str, Any]:
    """Return the numbers of a training on `examples`: those of the config, else the papers'."""
    family = backbone.family
    if features is not None:
        defaults = dict(learning_rate=2e-3, warmup=0.1, weight_decay=0.0, dropout=0.5)
    else:
        defaults = dict(
            learning_rate=learning_rate(family.learning_rates, depth(backbone), width(backbone)),
            warmup=family.warmup,
            weight_decay=0.01,
            dropout=0.1,
        )
        if config.lora is not None or config.train_weights is not None:
            rate = FEW_WEIGHTS * defaults["learning_rate"]
            defaults["learning_rate"] = float(f"{min(2e-3, rate):.1e}")
    usual = 3.0 if features is None else 6.0
    needed = math.ceil(_LEAST * config.batch_size / examples)
    defaults["epochs"] = min(max(usual, float(needed)), _MOST_EPOCHS)
    settings = {
        name: value if getattr(config, name) is None else getattr(config, name)
        for name, value in defaults.items()
    }
    for name in (
        "batch_size", "accumulation", "clip_norm", "optimizer", "layer_decay", "freeze",
    ):  # fmt: skip
        settings[name] = getattr(config, name)
    if config.batch_tokens is not None:
        settings["batch_tokens"] = config.batch_tokens
    if config.pack:
        settings["pack"] = True
    if config.teacher is not None:
        settings["distillation_weight"] = config.distillation_weight
        settings["temperature"] = config.temperature
    with_lm = family.language_model and features is None and not backbone.saved
    settings["lm_weight"] = config.lm_weight if with_lm else 0.0
    return settings


def remedies(
    config: FinetuneSettings, backbone: Any, features: str | None, settings: dict, steps: int
) -> str:
    """Return what to try where a training of some `settings` has learnt nothing, in words."""
    usual = settings_of(config.replace(learning_rate=None), backbone, features, 1)["learning_rate"]
    rate, epochs = settings["learning_rate"], settings["epochs"]
    size = "batch_tokens" if "batch_tokens" in settings else "batch_size"
    others = {
        "learning_rate": 2 * rate if rate == usual else usual,
        size: settings[size] // 2,
        "epochs": 3 * epochs,
    }
    tried = " or ".join(f"{name} {value:g}" for name, value in others.items() if value)
    return f"try {tried} (they were {rate:g}, {settings[size]} and {epochs:g}: {steps} updates)"


def max_length_of(config: FinetuneSettings, backbone: Any, default: int | None = None) -> int:
    """Return the longest sequence that a run reads; a default does not forbid a small model."""
    positions = max_positions(backbone)
    if "max_length" not in config.given:
        length = default or config.max_length
        return min(length, positions or length)
    if positions and config.max_length > positions:
        raise ValueError(
            f"`max_length` {config.max_length} is longer than the {positions} positions of "
            f"{backbone.path}"
        )
    return config.max_length


def check_used(config: FinetuneSettings, backbone: Any, features: str | None) -> None:
    """Refuse what only networks on features, or models of another kind, would take notice of."""
    family, whole = backbone.family, features is None
    rules = (
        (("units", "lstm_layers", "predicate_size", "cache"), not whole, "networks on `features`"),
        (("layer_decay", "freeze"), whole, "models that are trained themselves, not `features`"),
        (("word_embeddings",), family.word_embeddings, "an ELMo"),
        (
            ("lm_weight",),
            family.language_model and whole and not backbone.saved,
            "a run or a checkpoint of a GPT that is trained itself",
        ),
    )
    fields = {field.name: field for field in dataclasses.fields(config)}
    for names, used, of in rules:
        for name in () if used else set(names) & set(fields):
            value = getattr(config, name)
            if value and value != default_of(fields[name]):  # 0 of what there is none of
                raise ValueError(f"`{name}` is for {of}; {backbone.path} would not use it")


def check_pack(config: FinetuneSettings, backbone: Any, features: str | None) -> None:
    """Check that a task can be learnt from rows of several examples."""
    if config.crf:
        raise ValueError(
            "`pack` can't be given with `crf`, whose chain would run on from one example of a row "
            "to the next; leave one of them out"
        )
    if features is not None:
        raise ValueError("`pack` can't be given with `features`; leave one of them out")
    if backbone.saved or not backbone.family.packs:
        what = "a SavedModel" if backbone.saved else backbone.family.title
        raise ValueError(
            "`pack` needs a run or a checkpoint of BERT or an encoder after it; "
            f"{backbone.path} is {what}; leave it out"
        )


def metric_of(config: FinetuneSettings, task: HeadTask, dev: list[Any]) -> str:
    """Return the measure that picks the best checkpoint, of those that examples have targets of."""
    if config.metric is None:
        return measured_by(task, dev, task.main_measure)
    if measured_by(task, dev, config.metric) != config.metric:
        known = task.measures(dev, [task.perfect(e) for e in dev])
        raise ValueError(f"`metric` {config.metric} is not among {', '.join(sorted(known))}")
    return config.metric


def measured_by(task: HeadTask, dev: list[Any], metric: str) -> str:
    """Return `metric`, or where examples have no targets of it the first measure that they have."""
    known = task.measures(dev, [task.perfect(e) for e in dev])
    return metric if metric in known else next(iter(known))


def task_of(model: Any, settings: dict[str, Any]) -> Any:
    """Return what is learnt of a `tfnlp.hub.TaskModel`."""
    options = {name: settings[name] for name in ("label_smoothing",) if name in settings}
    if "class_weights" in settings:
        options["class_weights"] = list(settings["class_weights"].values())
    if settings["lm_weight"]:
        task = tasks.GPTFineTuning(model.model, settings["lm_weight"], **options)
    else:
        task = model.task.objective(model.packed or model.model, **options)
    weight = settings.get("distillation_weight")
    return task if weight is None else tasks.TaskDistillation(task, weight, settings["temperature"])


def micro_batches(config: FinetuneSettings, strategy: Any, features: str | None) -> int:
    """Return the micro-batches of an update where the config gives none.

    A CPU gains from parts of 8 examples or more of similar length, which need less padding. Larger
    devices want large products, and networks on frozen features have batches of one length.
    """
    alone = strategy.num_replicas_in_sync == 1
    compiled = is_compiled(strategy, config.jit)
    similar = features is not None or config.batch_tokens is not None or config.pack
    if similar or compiled or not alone or tf.config.list_logical_devices("GPU"):
        return 1
    return next(n for n in (4, 2, 1) if n == 1 or config.batch_size % (8 * n) == 0)


def kept_numbers(
    config: FinetuneSettings, strategy: Any, features: str | None, folder: str
) -> dict[str, Any]:
    """Return what an earlier start had of a rate, epochs and micro-batches that are not given."""
    found = {}
    if config.accumulation is None:
        before = recorded(config, folder, "training", "accumulation")
        default = micro_batches(config, strategy, features)
        found["accumulation"] = default if before is None else int(before)
    for name in ("learning_rate", "epochs"):
        before = recorded(config, folder, "training", name)
        if getattr(config, name) is None and before:
            found[name] = before
    return found


BALANCED = "balanced"


def loss_settings(config: Any, task: Any, train: list[Any]) -> dict[str, Any]:
    """Return what the loss of a run has beside the task's: nothing, where nothing was asked for.

    Returns:
        dict of `label_smoothing` and `class_weights`, a dict by class in the order of the labels.
    """
    found: dict[str, Any] = {}
    for name in ("class_weights", "label_smoothing"):
        if getattr(config, name) and task.crf:
            raise ValueError(
                f"`{name}` can't be given with `crf`, whose loss is of whole sequences of tags; "
                "leave one of them out"
            )
    if config.label_smoothing:
        found["label_smoothing"] = config.label_smoothing
    if config.class_weights:
        found["class_weights"] = _weights(config.class_weights, task, train)
    return found


def _weights(asked: Any, task: Any, train: list[Any]) -> dict[str, float]:
    if asked == BALANCED:
        return task.balanced(train)
    pairs = _pairs(asked)
    unknown = sorted(set(pairs) - set(task.labels))
    if unknown:
        raise ValueError(
            f"`class_weights` has {unknown[0]!r}, which is not among the labels: "
            f"{listed(task.labels)}"
        )
    return {label: pairs.get(label, 1.0) for label in task.labels}


def _pairs(asked: Any) -> dict[str, float]:
    """Return weights by class of "LABEL=WEIGHT,..." or of a dict."""
    if isinstance(asked, str):
        parts = [part.rpartition("=") for part in asked.split(",")]
        pairs = [(label.strip(), weight) for label, _, weight in parts]
    else:
        pairs = [(class_name(x), w) for x, w in asked.items()] if isinstance(asked, Mapping) else []
    try:
        found = {label: float(weight) for label, weight in pairs}
    except (TypeError, ValueError):
        found = {}
    once = len(found) == len(pairs) and all(found)
    if not found or not once or not all(0 < weight < math.inf for weight in found.values()):
        raise ValueError(
            f"`class_weights` {asked!r:.100} must be {BALANCED}, or LABEL=WEIGHT,... (in Python "
            "also a dict) with each label once and weights above 0"
        )
    return found
