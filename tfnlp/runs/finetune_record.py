"""What a fine-tuned run's `config.json` says, and how its results are shown."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tfnlp import __version__
from tfnlp.families.fitting import SECTION
from tfnlp.files import write_lines
from tfnlp.objectives.measure_names import in_words
from tfnlp.runs import task_folder
from tfnlp.runs.backbone import backbone_config
from tfnlp.runs.finetune_examples import crc32
from tfnlp.runs.finetune_recipe import optimizer_of
from tfnlp.tasks.baselines import Baseline, shown_baseline
from tfnlp.training.checkpoints import drop_slots
from tfnlp.training.optimizers import optimizer_settings
from tfnlp.training.progress import wrapped
from tfnlp.training.run import check_run, record_files


def run_config(
    work: Any, settings: dict[str, Any], features: str | None, seed: int, has_words: bool
) -> dict[str, Any]:
    """Return `config.json`: everything that decides which numbers a run ends with."""
    config = work.config
    head = {"dropout": settings["dropout"]}
    if features is not None:
        head.update(units=config.units, lstm_layers=config.lstm_layers)
        if has_words:
            head["embedding_size"] = config.word_embeddings
        if hasattr(config, "predicate_size"):
            head["predicate_size"] = config.predicate_size
    columns = {"text": config.text_columns, "label": config.label}
    if work.read_as.label_columns or work.read_as.separator:
        columns["label_columns"] = work.read_as.label_columns
        columns["separator"] = work.read_as.separator
    return {
        "tfnlp": __version__,
        "model": "task",
        "spec": work.task.config(),
        "backbone": backbone_config(work.backbone),
        "features": features,
        **({SECTION: work.adaptation.config()} if work.adaptation else {}),
        "head": head,
        "columns": columns,
        **training_sections(work, settings, seed),
    }


def training_sections(work: Any, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return what `config.json` says of the training and of the examples."""
    config = work.config
    numbers = {"metric": work.metric, "bf16": config.bf16, "fp16": config.fp16, "seed": seed}
    if config.marks:
        numbers["marks"] = config.marks
    return {
        "training": {**settings, **numbers},
        "optimizer": optimizer_settings(optimizer_of(settings)),
        "data": {
            "examples": len(work.train),
            "crc32": crc32(work.train),
            "dev": crc32(work.dev),
        },
    }


def begin(config: Any, folder: str) -> None:
    """Check the folder of a run before it begins or goes on; with `restart` it is emptied."""
    if config.restart:
        task_folder.delete_task(config.output)  # the table of several runs, too
        task_folder.delete_task(folder)
    check_run(folder, ignore=[task_folder.RESULTS])  # it is made again if it was deleted


def write_results(folder: str, results: dict[str, Any]) -> None:
    """Write RUN/results.json, which says that the run has ended; nothing goes on from it."""
    path = os.path.join(folder, task_folder.RESULTS)
    write_lines(path, [json.dumps(results, indent=2)])
    record_files(folder, [task_folder.RESULTS], replace=True)
    drop_slots(folder)


def ended_before(folder: str, kept: Sequence[str]) -> dict[str, Any] | None:
    """Return and print the results of a run that has ended, None of another.

    Checksums of the files `kept` are recorded beside that of the results.
    """
    results = task_folder.read_json(os.path.join(folder, task_folder.RESULTS))
    if results is not None:
        record_files(folder, [*kept, task_folder.RESULTS])
        print_results(f"{folder} has ended before; its dev measures: ", results)
    return results


def print_results(head: str, results: dict[str, Any]) -> None:
    """Print measures as lines of 80 columns, without those of single labels, and the baseline.

    That nothing was learnt is said on stderr.
    """
    # Sentence vectors have no baseline.
    found = {name: Baseline(**b) for name, b in results.get("baseline", {}).items()}
    lines = [shown_measures(head, results["metrics"]), shown_baseline(found, results["metric"])]
    print("\n".join(line for line in lines if line), flush=True)
    if "plateau" in results:
        print(f"dev: {results['plateau']}", file=sys.stderr)


def shown_measures(head: str, measures: Mapping[str, float]) -> str:
    """Return measures behind `head` as lines of 80 columns, without those of single labels."""
    shown = {in_words(name): value for name, value in measures.items() if "/" not in name}
    return wrapped(head, [f"{name} {value:.4f}" for name, value in shown.items()], 80)
