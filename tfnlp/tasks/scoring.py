"""Predictions of a fine-tuned model against the labels of the examples."""

from tfnlp.tasks import metrics, squad


def score(spec, examples, predictions):
    """The field's measures of a task: dict of floats.

    Args:
        spec: a `TaskSpec`.
        examples: labelled, from `tfnlp.data.read_task`.
        predictions: for each example what `tfnlp.hub.TaskModel.predict` says of it.

    Returns:
        `classify`: accuracy, matthews, f1. `similarity`: pearson, spearman, mse. `choose`:
        accuracy. `tag`: accuracy and, of BIO tags, precision, recall and f1 of the entities.
        `answer`: exact_match and f1 in percent, as the official scripts of SQuAD have them, and
        with unanswerable questions what `tfnlp.tasks.squad.answers` adds.
    """
    if spec.task == "classify":
        labels = [e.label for e in examples]
        return metrics.classification(labels, [p["label"] for p in predictions], spec.labels)
    if spec.task == "similarity":
        scores = [e.label for e in examples]
        return metrics.regression(scores, [p["score"] for p in predictions])
    if spec.task == "choose":
        right = [p["choice"] == e.label for e, p in zip(examples, predictions, strict=True)]
        return {"accuracy": sum(right) / len(right)}
    if spec.task == "tag":
        return metrics.tagging([e.tags for e in examples], [p["tags"] for p in predictions])
    golds = {e.id: [text for text, _ in e.answers] for e in examples}
    found = {e.id: p["answer"] for e, p in zip(examples, predictions, strict=True)}
    if not spec.unanswerable:
        return squad.answers(golds, found)
    # What the answers would be without a threshold is what the best threshold is found by.
    best = {e.id: p["answers"][0] for e, p in zip(examples, predictions, strict=True)}
    odds = {e.id: p["null_score"] for e, p in zip(examples, predictions, strict=True)}
    return squad.answers(golds, best, odds, spec.threshold)


def main_metric(spec):
    """Name of the measure that picks the best checkpoint."""
    return metrics.main_metric(spec.output, spec.labels)
