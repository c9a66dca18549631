"""Several runs of fine-tuning in one folder: choices of features, seeds, folds."""

import json
import os
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from tfnlp.files import write_lines
from tfnlp.locks import locked
from tfnlp.runs import task_folder

OUT_OF_FOLD = "out_of_fold.jsonl"


def is_single(config: Any) -> bool:
    """Return whether a config asks for one run."""
    several = config.features == "all" or len(config.seeds) > 1
    return not (several or config.folds or config.search)


def run_all(config: Any, work: Any, choices: Sequence[str | None]) -> dict[str, Any]:
    """Train several runs in folders of their own; print a table of them, and the best one."""
    several_choices = len(choices) > 1
    if several_choices:
        choices = _with_layers(work, choices)
    rows, best, variants = {}, None, _variants(config)
    for choice in choices:
        for variant, fold, seed in variants:
            parts = [*[choice] * several_choices, *[variant] * (len(variants) > 1)]
            name = os.path.join(*parts)
            folder = os.path.join(config.output, name)
            if fold is not None:
                work.take_fold(fold)
            with locked(folder):
                results = work.run(folder, choice, seed)
            rows.setdefault(choice, []).append(results["metrics"])
            value = results["metrics"].get(work.metric)  # a fold may have no targets of it
            if value is not None and (best is None or value > best[0]):
                best = (value, name, results, fold)
    runs = {choice or "fine-tuned": metrics for choice, metrics in rows.items()}
    found = {"best": best[1], "metric": work.metric, "runs": runs}
    if config.folds:
        found["out_of_fold"] = _keep_out_of_fold(config, work)
        # The dev examples are those of the run that the folder stands for.
        work.take_fold(best[3])
    write_runs(config.output, found)
    folder = os.path.join(config.output, best[1])
    what = "fold" if config.folds else "dev"
    print(f"\n{_table(rows, work.metric, what)}\nbest: {folder}", flush=True)
    more = {name: found[name] for name in ("runs", "out_of_fold") if name in found}
    return {**best[2], "folder": folder, **more}


def _with_layers(work: Any, choices: Sequence[str]) -> list[str]:
    """Return the choices of features that the model has the layers for; say which it has not."""
    found, missing = [], None
    for choice in choices:
        try:
            work.backbone.family.features(work.backbone, choice)
            found.append(choice)
        except ValueError as error:
            missing = error
            print(f"{choice}: left out; {error}", file=sys.stderr)
    if not found:
        raise missing
    return found


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
    rows: list[Any] = [None] * len(work.every)
    for fold in range(config.folds):
        path = os.path.join(config.output, f"fold-{fold + 1}", task_folder.PREDICTIONS)
        with open(path, encoding="utf-8") as file:
            for example, line in zip(work.held_out(fold), file, strict=True):
                rows[example] = {"fold": fold + 1, **json.loads(line)}
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    write_lines(os.path.join(config.output, OUT_OF_FOLD), lines)
    return work.task.measures(work.every, rows)


def _table(rows: dict[str | None, list[dict[str, float]]], main: str, what: str = "dev") -> str:
    """Return mean and standard deviation over seeds or folds, as text; `main` comes first."""
    every = dict.fromkeys(name for some in rows.values() for m in some for name in m)
    names = sorted(every, key=lambda name: name != main)
    names = [
        name for name in names if not name.endswith("_thresh") and ("/" not in name or name == main)
    ]
    lines = [f"{what:18s}" + "".join(f"{name:>20s}" for name in names)]
    for choice, metrics in rows.items():
        cells = [_mean_and_deviation([m[n] for m in metrics if n in m]) for n in names]
        lines.append(f"{choice or 'fine-tuned':18s}" + "".join(f"{cell:>20s}" for cell in cells))
    return "\n".join(lines)


def _mean_and_deviation(values: list[float]) -> str:
    """Return of one value the value, of several mean and standard deviation (of a sample)."""
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


def trials_table(trials: list[dict[str, Any]], metric: str) -> str:
    """Return the settings and the value of each trial of a search, the best marked by a star."""
    names = list(trials[0]["settings"])
    best = max(t["value"] for t in trials if t.get("value") is not None)
    lines = [f"{'trial':10s}" + "".join(f"{name:>16s}" for name in [*names, metric])]
    for trial in trials:
        cells = [f"{trial['settings'][name]:.4g}" for name in names]
        value = trial.get("value")
        cells.append("failed" if value is None else f"{value:.4f}")
        line = f"{trial['trial']:10s}" + "".join(f"{cell:>16s}" for cell in cells)
        lines.append(line + " *" * (value == best))
    return "\n".join(lines)
