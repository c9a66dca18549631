"""What a fine-tuning run learns: the `TaskSpec` of its examples, and the measure to choose by."""

import math
from typing import Any

from tfnlp.families.fitting import max_positions
from tfnlp.runs.finetune_examples import perfect_prediction
from tfnlp.settings.finetune import FinetuneSettings

# Factors of the learning rate of a CRF's scores. Adam moves a weight by about the rate in a step:
# those of encoders, 3e-5 to 3e-4, would leave the scores near 0.
_CRF_RATES = {False: 100.0, True: 10.0}  # of a network on features: True


def spec_of(
    task: str, config: FinetuneSettings, backbone: Any, features: str | None, train: list[Any]
) -> Any:
    """Return the `TaskSpec` of training examples."""
    from tfnlp.tasks import TaskSpec

    arguments = {"max_length": max_length_of(config, backbone)}
    for name in ("stride", "max_question", "max_answer"):
        if hasattr(config, name):
            arguments[name] = getattr(config, name)
    if task == "classify":
        arguments["labels"] = sorted({e.label for e in train})
    if task == "labels":
        arguments["labels"] = sorted({label for e in train for label in e.label})
    if task in ("tag", "roles"):
        arguments["labels"] = sorted({tag for e in train for tag in e.tags})
        if config.crf:
            arguments["crf"] = _CRF_RATES[features is not None]
    if task in ("classify", "labels", "similarity"):
        arguments["texts"] = len(train[0].segments)
    if task == "choose":
        arguments["choices"] = len(train[0].choices)
    if task == "answer":
        arguments["unanswerable"] = not all(e.answers for e in train)
    if task == "similarity":
        scores = [e.label for e in train]
        mean = sum(scores) / len(scores)
        deviation = math.sqrt(sum((s - mean) ** 2 for s in scores) / len(scores))
        arguments.update(mean=mean, deviation=deviation or 1.0)
        # Which text comes first means nothing (Radford et al. 2018, section 3.3).
        whole = backbone.family.fitting.both_orders and features is None
        arguments["both_orders"] = whole and arguments["texts"] == 2
    return TaskSpec(task, **arguments)


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


def check_pack(task: str, config: FinetuneSettings, backbone: Any, features: str | None) -> None:
    """Check that a task can be learnt from rows of several examples."""
    from tfnlp.models.bert_tasks import PACKED_OUTPUTS
    from tfnlp.tasks.task_spec import OUTPUTS

    if OUTPUTS[task] not in PACKED_OUTPUTS:
        tasks = ", ".join(name for name, output in OUTPUTS.items() if output in PACKED_OUTPUTS)
        raise ValueError(f"`pack` is for {tasks}, not for {task}; leave it out")
    if getattr(config, "crf", False):
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


def metric_of(config: FinetuneSettings, spec: Any, dev: list[Any]) -> str:
    """Return the measure that picks the best checkpoint."""
    from tfnlp.tasks.scoring import main_metric, score

    some = dev[:1]
    known = set(score(spec, some, [perfect_prediction(spec, e) for e in some]))
    metric = config.metric
    if metric is None:
        return "best_f1" if spec.unanswerable else main_metric(spec)
    if metric not in known:
        raise ValueError(f"`metric` {metric} is not among {', '.join(sorted(known))}")
    return metric
