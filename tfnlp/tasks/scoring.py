"""Scores of a fine-tuned model's predictions against the labels of the examples."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfnlp.data.labelled.tag_schemes import as_bio, is_bio, scheme_of
from tfnlp.tasks import metrics, roles, squad
from tfnlp.tasks.task_spec import TaskSpec

_MAIN = {
    "classify": "accuracy",
    "labels": "micro_f1",
    "similarity": "pearson",
    "choose": "accuracy",
    "tag": "accuracy",
    "answer": "f1",
}  # the measures that pick the best checkpoint


def score(
    spec: TaskSpec, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the usual measures of a task, of what `tfnlp.hub.TaskModel.predict` returned.

    Returns:
        `classify`: accuracy, matthews, f1. `labels`: micro_f1, macro_f1, samples_f1,
        subset_accuracy and `f1/LABEL`, `precision/LABEL`, `recall/LABEL`. `similarity`: pearson,
        spearman, mse. `choose`: accuracy. `tag`: accuracy and, of BIO tags, precision, recall and
        f1 of the entities. `roles`: the same of roles, see `tfnlp.tasks.roles`. `answer`:
        exact_match and f1 in percent, as in the official scripts of SQuAD, and with unanswerable
        questions what `tfnlp.tasks.squad.answers` adds.
    """
    if spec.task == "classify":
        labels = [e.label for e in examples]
        return metrics.classification(labels, [p["label"] for p in predictions], spec.labels)
    if spec.task == "labels":
        found = [p["labels"] for p in predictions]
        return metrics.label_sets([e.label for e in examples], found, spec.labels)
    if spec.task == "similarity":
        scores = [e.label for e in examples]
        return metrics.regression(scores, [p["score"] for p in predictions])
    if spec.task == "choose":
        right = [p["choice"] == e.label for e, p in zip(examples, predictions, strict=True)]
        return {"accuracy": sum(right) / len(right)}
    if spec.output == "tag":
        # A model of another library may have learnt another scheme than BIO.
        marks = scheme_of(spec.labels) is not None
        predicted = [as_bio(p["tags"]) if marks else p["tags"] for p in predictions]
        if spec.task == "roles":
            return roles.role_scores([e.tags for e in examples], predicted)
        return metrics.tagging([e.tags for e in examples], predicted)
    golds = {e.id: [text for text, _ in e.answers] for e in examples}
    found = {e.id: p["answer"] for e, p in zip(examples, predictions, strict=True)}
    if not spec.unanswerable:
        return squad.answers(golds, found)
    # The best threshold is found from the answers without a threshold.
    best = {e.id: p["answers"][0] for e, p in zip(examples, predictions, strict=True)}
    odds = {e.id: p["null_score"] for e, p in zip(examples, predictions, strict=True)}
    return squad.answers(golds, best, odds, spec.threshold)


def main_metric(spec: TaskSpec) -> str:
    """Return the name of the measure that picks the best checkpoint; F1 for tags of entities."""
    if spec.task == "roles" or (spec.task == "tag" and is_bio(spec.labels)):
        return "f1"
    return _MAIN[spec.task]
