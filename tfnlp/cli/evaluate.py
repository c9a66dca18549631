"""`tfnlp evaluate`: measure a model on text, translations, labelled examples or word pairs."""

import argparse
import json
from typing import Any

from tfnlp.cli.options import add_bf16, add_command, add_options
from tfnlp.settings.options import names_of
from tfnlp.settings.tables import EVALUATIONS
from tfnlp.settings.use import EvaluateTask, ModelSettings

READS_MODEL = True  # the one that it is given, and writes nothing to it


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Measure a model: on held-out text, translations, labelled examples, or what words mean."
    )
    parser = add_command(commands, "evaluate", summary, ModelSettings)
    for settings in EVALUATIONS:
        add_options(parser, settings, heading=settings.of)
    add_bf16(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Print the measures of a model: the model says which settings it takes."""
    from tfnlp.families.recognition import check_precision, load_pretrained
    from tfnlp.runs.task_folder import is_task

    names = {name for settings in EVALUATIONS for name in names_of(settings)}
    given = {name: value for name, value in vars(options).items() if name in names}
    if is_task(options.model):
        _evaluate_task(options, given)
        return
    loaded = load_pretrained(options.model, dtype=options.dtype)
    check_precision(loaded, options.dtype)
    measured = loaded.family.measured(loaded, given.pop("text", None), given)
    print(json.dumps(measured.results) if options.json else measured.text)


def _evaluate_task(options: argparse.Namespace, given: dict[str, Any]) -> None:
    from tfnlp.runs.task_run import TaskRun

    if "text" not in given:
        raise ValueError("give `text`, the labelled examples")
    settings = EvaluateTask.make(data=given.pop("text"), **given)
    loaded = TaskRun(options.model, options.dtype)
    loaded.path = options.given_model
    metrics, _, _ = loaded.measured(settings)
    if options.json:
        print(json.dumps(metrics))
    else:
        print("\n".join(f"{name:28s}{value:.4f}" for name, value in metrics.items()))
    if settings.report is not None:
        print(f"page: {settings.report}/page.html")
