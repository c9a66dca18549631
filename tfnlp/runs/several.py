"""Several runs of fine-tuning in one folder: choices of features, seeds, folds."""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tfnlp.families.preparation import write_lines
from tfnlp.locks import locked
from tfnlp.runs import task_folder
from tfnlp.runs.finetune_table import rows_as_json, table

OUT_OF_FOLD = "out_of_fold.jsonl"


def is_single(config: Any) -> bool:
    """Return whether a config asks for one run."""
    several = config.features == "all" or len(config.seeds) > 1
    return not (several or config.folds or config.search)


def run_all(config: Any, work: Any, choices: Sequence[str | None]) -> dict[str, Any]:
    """Train several runs in folders of their own; print a table of them, and the best one.

    Args:
        config: A `FinetuneConfig`.
        work: What trains one run after the other, see `tfnlp.runs.finetuning.Finetuning`.
        choices: Names of `tfnlp.models.FEATURES`; None: the model is fine-tuned as a whole.
    """
    rows, best, variants = {}, None, _variants(config)
    for choice in choices:
        for variant, fold, seed in variants:
            name = os.path.join(*[choice] * (len(choices) > 1), *[variant] * (len(variants) > 1))
            folder = os.path.join(config.output, name)
            if fold is not None:
                work.take_fold(fold)
            try:
                with locked(folder):
                    results = work.run(folder, choice, seed)
            except ValueError as error:
                if len(choices) == 1 or "layers, but the encoder has" not in str(error):
                    raise
                print(f"{choice}: left out; {error}", file=sys.stderr)
                break
            rows.setdefault(choice, []).append(results["metrics"])
            value = results["metrics"][work.metric]
            if best is None or value > best[0]:
                best = (value, name, results, fold)
    found = {"best": best[1], "metric": work.metric, "runs": rows_as_json(rows)}
    if config.folds:
        found["out_of_fold"] = _keep_out_of_fold(config, work)
        work.take_fold(
            best[3]
        )  # whose dev examples are those of the run that the folder stands for
    write_runs(config.output, found)
    folder = os.path.join(config.output, best[1])
    what = "fold" if config.folds else "dev"
    print(f"\n{table(rows, work.metric, what)}\nbest: {folder}", flush=True)
    more = {name: found[name] for name in ("runs", "out_of_fold") if name in found}
    return {**best[2], "folder": folder, **more}


def _variants(config: Any) -> list[tuple[str, int | None, int]]:
    """Return the name, the fold and the seed of each run."""
    if config.folds:
        return [(f"fold-{n + 1}", n, config.seeds[0]) for n in range(config.folds)]
    return [(f"seed-{seed}", None, seed) for seed in config.seeds]


def write_runs(output: str, found: dict[str, Any]) -> None:
    """Write the file that says which run a folder of several stands for."""
    write_lines(os.path.join(output, task_folder.RUNS), [json.dumps(found, indent=2)])


def _keep_out_of_fold(config: Any, work: Any) -> dict[str, float]:
    """Write the prediction of each example by the fold that did not learn it; return measures."""
    from tfnlp.tasks.scoring import score

    rows: list[Any] = [None] * len(work.every)
    for fold in range(config.folds):
        path = os.path.join(config.output, f"fold-{fold + 1}", task_folder.PREDICTIONS)
        with open(path, encoding="utf-8") as file:
            for example, line in zip(work.held_out(fold), file, strict=True):
                rows[example] = {"fold": fold + 1, **json.loads(line)}
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    write_lines(os.path.join(config.output, OUT_OF_FOLD), lines)
    return score(work.spec, work.every, rows)
