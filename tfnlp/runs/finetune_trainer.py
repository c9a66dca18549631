"""The `Trainer` of a fine-tuning run."""

from typing import Any

from tfnlp.families.defaults import recorded
from tfnlp.settings.finetune import FinetuneSettings


def make_trainer(
    config: FinetuneSettings,
    strategy: Any,
    task: Any,
    settings: dict[str, Any],
    steps: int,
    folder: str | None,
    seed: int,
) -> Any:
    """Return the `Trainer` of one run."""
    from tfnlp import training

    more = {}
    if settings["layer_decay"] != 1 or settings["freeze"]:
        more["layer_rates"] = training.LayerRates(settings["layer_decay"], settings["freeze"])
    warmup = int(settings["warmup"] * steps)
    return training.Trainer(
        task,
        optimizer_of(settings),
        training.schedule("linear", settings["learning_rate"], steps, warmup),
        strategy=strategy,
        clip_norm=settings["clip_norm"] or None,
        accumulation=settings["accumulation"],
        steps_per_call=10,
        jit_compile=config.jit,
        seed=seed,
        directory=folder,
        keep=1,
        remat=config.remat,
        **more,
    )


def task_of(model: Any, settings: dict[str, Any]) -> Any:
    """Return what is learnt of a `tfnlp.hub.TaskModel`."""
    from tfnlp import tasks

    options: dict[str, Any] = {"label_smoothing": settings.get("label_smoothing", 0.0)}
    if "class_weights" in settings:
        options["class_weights"] = list(settings["class_weights"].values())
    if settings["lm_weight"]:
        task = tasks.GPTFineTuning(model.model, settings["lm_weight"], **options)
    else:
        task = tasks.FineTuning(model.packed or model.model, **options)
    weight = settings.get("distillation_weight")
    return task if weight is None else tasks.TaskDistillation(task, weight, settings["temperature"])


def micro_batches(config: FinetuneSettings, strategy: Any, features: str | None) -> int:
    """Return the micro-batches of an update where the config gives none.

    A CPU gains from parts of 8 examples or more of similar length, which need less padding. Larger
    devices want large products, and networks on frozen features have batches of one length.
    """
    import tensorflow as tf

    from tfnlp.training import is_compiled

    alone = strategy.num_replicas_in_sync == 1
    compiled = is_compiled(strategy, config.jit)
    similar = features is not None or config.batch_tokens is not None or config.pack
    if similar or compiled or not alone or tf.config.list_logical_devices("GPU"):
        return 1
    return next(n for n in (4, 2, 1) if n == 1 or config.batch_size % (8 * n) == 0)


def kept_numbers(
    config: FinetuneSettings, strategy: Any, features: str | None, folder: str
) -> dict[str, Any]:
    """Return the rate and the micro-batches of an earlier start, where the config gives none."""
    found = {}
    if config.accumulation is None:
        before = recorded(config, folder, "training", "accumulation")
        default = micro_batches(config, strategy, features)
        found["accumulation"] = default if before is None else int(before)
    before = recorded(config, folder, "training", "learning_rate")
    if config.learning_rate is None and before:
        found["learning_rate"] = before
    return found


def optimizer_of(settings: dict[str, Any]) -> Any:
    """Return the optimizer of a run."""
    from tfnlp import training

    return training.optimizer(settings["optimizer"], settings["weight_decay"])
