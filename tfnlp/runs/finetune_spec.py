"""What a fine-tuning run learns: the task that its examples make, and the measure to choose by."""

from typing import Any

from tfnlp.families.fitting import max_positions
from tfnlp.settings.finetune import FinetuneSettings
from tfnlp.tasks import HeadTask


def task_learnt(
    kind: type[HeadTask],
    config: FinetuneSettings,
    backbone: Any,
    features: str | None,
    train: list[Any],
) -> HeadTask:
    """Return the task that training examples make."""
    return kind.learnt_from(
        train,
        config,
        max_length=max_length_of(config, backbone),
        whole=features is None,
        both_orders=backbone.family.fitting.both_orders,
    )


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


def check_pack(config: FinetuneSettings, backbone: Any, features: str | None) -> None:
    """Check that a task can be learnt from rows of several examples."""
    if config.crf:
        raise ValueError(
            "`pack` can't be given with `crf`, whose chain would run on from one example of a row "
            "to the next; leave one of them out"
        )
    if features is not None:
        raise ValueError("`pack` can't be given with `features`; leave one of them out")
    if backbone.saved or not backbone.family.fitting.packs:
        what = "a SavedModel" if backbone.saved else backbone.family.title
        raise ValueError(
            f"`pack` needs a run or a checkpoint of BERT, ALBERT, DistilBERT, ELECTRA or RoBERTa; "
            f"{backbone.path} is {what}; leave it out"
        )


def metric_of(config: FinetuneSettings, task: HeadTask, dev: list[Any]) -> str:
    """Return the measure that picks the best checkpoint."""
    metric, some = config.metric, dev[:1]
    if metric is None:
        return task.main_measure
    known = set(task.measures(some, [task.perfect(e) for e in some]))
    if metric not in known:
        raise ValueError(f"`metric` {metric} is not among {', '.join(sorted(known))}")
    return metric
