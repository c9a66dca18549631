"""`tfnlp predict MODEL`: use a model."""

import argparse
import json
import sys
from typing import Any

from tfnlp.cli.options import add_bf16, add_command, config_of
from tfnlp.files import write_lines
from tfnlp.settings.tables import PREDICTIONS
from tfnlp.settings.use import PredictTask, SearchSettings

_TASK, _SEARCH = "task", "search"

READS_MODEL = True  # the one that it is given, and writes nothing to it


def add_to(commands: Any) -> None:
    """Add the sub-command, with one of its own for each kind of prediction."""
    parser = add_command(
        commands,
        "predict",
        "Use a model: labels, tags, answers; words for masks, neighbours, vectors, text, "
        "translations.",
    )
    models = parser.add_subparsers(dest="kind", required=True, metavar="MODEL")
    for name, (settings, summary) in PREDICTIONS.items():
        add_bf16(add_command(models, name, summary, settings))
    summary = "Labels, scores, tags or answers of a fine-tuned model."
    add_bf16(add_command(models, _TASK, summary, PredictTask))
    add_command(models, _SEARCH, "Texts of an index by their meaning.", SearchSettings)


def run(options: argparse.Namespace) -> None:
    """Print predictions."""
    config = config_of(options)
    if options.kind == _TASK:
        _predict_task(config, options.dtype)
        return
    if options.kind == _SEARCH:
        _search(config)
        return

    from tfnlp.families import FAMILIES
    from tfnlp.families.recognition import check_precision, load_pretrained
    from tfnlp.runs.task_folder import is_task

    families = [family for family in FAMILIES.values() if family.predicts == options.kind]
    if config.reads_stdin and not config.text and not sys.stdin.isatty():
        config = config.replace(text=config.stdin_texts(sys.stdin))
    families[0].check_prediction(config)
    if is_task(config.model):
        raise ValueError(
            f"{config.model} is fine-tuned already; use `tfnlp predict {_TASK}`, or give the "
            "pretrained model that it was made from"
        )
    dtype = "bfloat16" if getattr(config, "bf16", False) else getattr(options, "dtype", None)
    loaded = load_pretrained(config.model, dtype=dtype)
    check_precision(loaded, dtype)
    if loaded.family not in families:
        titles = " or ".join(family.title for family in families)
        raise ValueError(f"{config.model} is {loaded.family.title}, expected {titles}")
    loaded.family.check_weights(loaded)
    for piece in loaded.family.lines(loaded, config):
        print(piece, end="", flush=True)


def _search(config: SearchSettings) -> None:
    from tfnlp.runs.search_index import Index, is_index

    if not is_index(config.index):
        raise FileNotFoundError(
            f"{config.index} is no index; make one with `tfnlp embed --output NAME`, a name "
            "without an ending"
        )
    texts = config.text or [line.rstrip("\n") for line in sys.stdin]
    index = Index(config.index, config.model)
    found = index.search(
        texts, config.top, exact=True if config.exact else None, prompt=config.prompt
    )
    for query, rows in zip(texts, found, strict=True):
        if config.json:
            print(json.dumps({"query": query, "found": rows}, ensure_ascii=False))
            continue
        if len(texts) > 1:
            print(query)
        for row in rows:
            print(f"{row['score']:7.4f}  {row['row']:>8}  {row['text']}")


def _predict_task(config: PredictTask, dtype: str | None) -> None:
    """Print (or write) a line for each example."""
    from tfnlp.runs.finetune_examples import shown_source
    from tfnlp.runs.task_run import TaskRun

    if config.text and config.input:
        raise ValueError("give texts or `input`, not both")
    loaded = TaskRun(config.model, dtype)
    if config.input:
        examples = loaded.read(config.input, config, "input", labelled=False)
        source = shown_source(config.input)
    else:
        examples = _examples_of_texts(loaded, config)
        source = "texts" if config.text else "standard input"
    task = loaded.task_model.task
    predictions = loaded.predictions(examples, config.batch_size, source)
    pairs = zip(examples, predictions, strict=True)
    labelled = any(task.gold_of(example) not in (None, ()) for example in examples)
    lines = (json.dumps(task.row(*pair, labelled), ensure_ascii=False) for pair in pairs)
    if config.output:
        write_lines(config.output, lines)
        print(f"{len(examples):,} predictions: {config.output}")
        return
    if not (config.json or config.input):
        lines = (task.shown(*pair) for pair in pairs)
    for line in lines:
        print(line)


def _examples_of_texts(loaded: Any, config: PredictTask) -> list[Any]:
    from tfnlp.runs.finetune_examples import say

    if not config.text:
        lines = [line.rstrip("\n") for line in sys.stdin]
        rows = [line.split("\t") for line in lines if line.strip()]
        if not rows:
            raise ValueError("no text: give texts as arguments, `input` or lines on standard input")
        if len(rows) < len(lines):
            empty = len(lines) - len(rows)
            say("standard input", f"{empty:,} of {len(lines):,} lines are empty and were left out")
        loaded.suit_texts(len(rows[0]))
        return loaded.task_model.task.examples_of(rows)
    if loaded.task_model.task.sequences > 1:  # all texts are of one example
        loaded.suit_texts(len(config.text))
    task = loaded.task_model.task
    count = task.count_of_texts
    if len(config.text) % count:
        raise ValueError(
            f"got {len(config.text)} texts; {task.name} takes {task.takes}, {count} for each "
            "example"
        )
    rows = [config.text[i : i + count] for i in range(0, len(config.text), count)]
    return task.examples_of(rows)
