"""`tfnlp evaluate`: measure a model on text, translations, labelled examples or word pairs."""

import argparse
import json
from typing import Any

from tfnlp.cli.options import add_bf16, add_command, add_options, config_of
from tfnlp.families.precision import check_precision
from tfnlp.families.recognition import load_pretrained
from tfnlp.runs.task_folder import is_task
from tfnlp.settings.options import Settings
from tfnlp.settings.use import EvaluateSettings, EvaluateTask, ModelSettings

_ONLY_TASKS = ("text_columns", "label", "label_columns", "separator", "skip_bad_rows")


def add_to(commands: Any) -> None:
    """Add the sub-command."""
    summary = (
        "Measure a model: on held-out text, translations, labelled examples, or what words mean."
    )
    parser = add_command(commands, "evaluate", summary, ModelSettings)
    add_options(parser, EvaluateSettings)
    add_bf16(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Print the measures of a model: the family of the model says which."""
    config = config_of(options)
    if is_task(options.model):
        _evaluate_task(options, config)
        return
    for name in _ONLY_TASKS:
        if getattr(config, name) and config.pairs is None:
            raise ValueError(
                f"`{name}` is for fine-tuned models and `pairs`; {options.model} is a pretrained "
                "one"
            )
    loaded = load_pretrained(options.model, dtype=options.dtype)
    check_precision(loaded, options.dtype)
    settings = {name: getattr(config, name) for name in config.given}
    measured = loaded.family.measured(loaded, settings.pop("text", None), settings)
    print(json.dumps(measured.results) if options.json else measured.text)


def _evaluate_task(options: argparse.Namespace, config: Settings) -> None:
    from tfnlp.runs.task_run import TaskRun

    takes = ("batch_size", "report", *_ONLY_TASKS)
    for name in sorted(config.given - {"text", "layout", *takes}):
        raise ValueError(f"`{name}` is for pretrained models; {options.model} is fine-tuned")
    if config.text is None:
        raise ValueError("give `text`, the labelled examples")
    given = {name: getattr(config, name) for name in takes if name in config.given}
    loaded = TaskRun(options.model, options.dtype)
    loaded.path = options.given_model
    metrics, _, _ = loaded.measured(EvaluateTask.make(data=config.text, **given))
    if options.json:
        print(json.dumps(metrics))
    else:
        print("\n".join(f"{name:28s}{value:.4f}" for name, value in metrics.items()))
    if config.report is not None:
        print(f"report: {config.report}/index.html")
