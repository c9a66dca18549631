"""Measures of a fine-tuned model on labelled examples, and a report of its errors."""

import json


def run(args, batch_size=32, report=None, text_columns=None, label=None, skip_bad_rows=False):
    """Prints the measures of a run over --input.

    Args:
        args: of `tfnlp evaluate`.
        batch_size: examples at a time.
        report: folder to write a page of the errors to, or None.
        text_columns, label: columns of the files; None: as in training.
        skip_bad_rows: go on without rows that can't be read.
    """
    from tfnlp.commands.task_examples import read_examples
    from tfnlp.commands.task_models import load_task_run
    from tfnlp.tasks.scoring import score

    loaded = load_task_run(args.model)
    model, kept = loaded.task_model, loaded.config["columns"]
    examples = read_examples(
        model.spec.task,
        args.input,
        text_columns or kept["text"],
        label or kept["label"],
        skip_bad_rows,
    )
    predictions = model.predict(examples, batch_size)
    metrics = score(model.spec, examples, predictions)
    if args.json:
        print(json.dumps(metrics))
    else:
        for name, value in metrics.items():
            print(f"{name:28s}{value:.4f}")
    if report is not None:
        print(f"report: {_report(args, report, loaded, examples, predictions, metrics)}")


def _report(args, directory, loaded, examples, predictions, metrics):
    from tfnlp.commands.report import write_report

    spec, config = loaded.task_model.spec, loaded.config
    backbone, training = config["backbone"], config["training"]
    summary = {
        "model": args.model,
        "backbone": backbone["kind"].upper() + (" (SavedModel)" if backbone["saved"] else ""),
        "weights": loaded.task_model.model.count_params(),
        "features": config["features"] or "none: fine-tuned as a whole",
        "trained on": f"{config['data']['examples']:,} examples",
        "measured on": ", ".join(args.input),
        **{name: training[name] for name in ("epochs", "batch_size", "learning_rate", "seed")},
    }
    return write_report(
        directory,
        title=f"{spec.task}: {args.model}",
        task=spec.task,
        summary=summary,
        metrics=metrics,
        history=loaded.history.state(),
        examples=[
            _shown(spec, e, p) for e, p in zip(examples, predictions, strict=True)
        ],
        labels=list(spec.labels) or None,
    )


def _shown(spec, example, prediction):
    """An example and what was said of it, as the report takes them."""
    if spec.task == "tag":
        tags = {"tags": list(example.tags), "predicted": prediction["tags"]}
        return {"words": list(example.words), **tags}
    if spec.task == "answer":
        return _shown_answer(spec, example, prediction)
    found = {"text": list(example.segments), "label": example.label}
    if spec.task == "similarity":
        return {**found, "predicted": prediction["score"]}
    probabilities = prediction["probabilities"]
    if spec.task == "choose":
        found["choices"] = list(example.choices)
        return {**found, "predicted": prediction["choice"], "probabilities": probabilities}
    return {**found, "predicted": prediction["label"], "probabilities": probabilities}


def _shown_answer(spec, example, prediction):
    from tfnlp.tasks.squad import question_scores

    golds = [text for text, _ in example.answers]
    exact, f1 = question_scores(golds, prediction["answer"], spec.unanswerable)
    return {
        "id": example.id,
        "question": example.question,
        "context": example.context,
        "answers": golds,
        "predicted": prediction["answer"],
        "score": prediction["score"],
        "exact_match": exact,
        "f1": f1,
    }
