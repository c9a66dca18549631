"""Several runs of fine-tuning in one folder: features, seeds, folds, or a search with Optuna's TPE.

RUN/runs.json           the measures of all runs, and which of them the folder stands for
RUN/out_of_fold.jsonl   of folds the prediction of each example
RUN/study.json          of a search what each trial was given, and what came of it
RUN/search.png
"""

import glob
import json
import os
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from tfnlp.extras import needed
from tfnlp.files import write_lines
from tfnlp.locks import locked
from tfnlp.pictures import can_draw, plot_search
from tfnlp.runs import task_folder

OUT_OF_FOLD, STUDY, PICTURE = task_folder.OF_SEVERAL
_RANDOM = 5  # trials that are drawn at random before TPE has something to go by
_FACTOR = 4.0  # of the default learning rate, up and down


def is_single(config: Any) -> bool:
    """Return whether a config asks for one run."""
    several = config.features == "all" or len(config.seeds) > 1
    return not (several or config.folds or config.search)


def run_all(config: Any, work: Any, choices: Sequence[str | None]) -> dict[str, Any]:
    """Train several runs in folders of their own; print a table of them, and the best one."""
    several_choices = len(choices) > 1
    if several_choices:
        choices = _with_layers(work, choices)
    rows, best = {}, None
    variants = [(f"seed-{seed}", None, seed) for seed in config.seeds]
    if config.folds:
        variants = [(f"fold-{n + 1}", n, config.seeds[0]) for n in range(config.folds)]
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
    more = {}
    if config.folds:
        more["out_of_fold"] = _keep_out_of_fold(config, work)
        # The dev examples are those of the run that the folder stands for.
        work.take_fold(best[3])
    table = _table(rows, work.metric, "fold" if config.folds else "dev")
    return {**best[2], **_chosen(config, work, best[1], runs, table, more), **more}


def _chosen(
    config: Any, work: Any, best: str, runs: dict[str, Any], table: str, more: dict[str, Any]
) -> dict[str, Any]:
    """Write and print which run a folder of several stands for; return its folder and all runs."""
    found = {"best": best, "metric": work.metric, "runs": runs, **more}
    write_lines(os.path.join(config.output, task_folder.RUNS), [json.dumps(found, indent=2)])
    folder = os.path.join(config.output, best)
    print(f"\n{table}\nbest: {folder}", flush=True)
    return {"folder": folder, "runs": runs}


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


def search(config: Any, work: Any) -> dict[str, Any]:
    """Make `config.search` runs, the first with the defaults; print a table and the best one.

    Which numbers a trial gets is a function of the seed and of the trials before it. So a search
    that was killed goes on with the trial that it was in, and one that has ended goes on with
    further trials if it is asked for more.
    """
    _optuna()
    if config.restart:
        task_folder.delete_task(config.output)
        for folder in glob.glob(os.path.join(glob.escape(config.output), "trial-*")):
            task_folder.delete_task(folder)
        config = config.replace(restart=False)
    space, first = _space(config, work)
    trials = _kept(config.output, space)

    def keep() -> None:
        os.makedirs(config.output, exist_ok=True)
        study = json.dumps({"space": space, "trials": trials}, indent=2)
        write_lines(os.path.join(config.output, STUDY), [study])

    for number in range(config.search):
        if number == len(trials):
            given = _suggested(trials, space, config.seeds[0]) if trials else first
            trials.append({"trial": f"trial-{number + 1}", "settings": given})
            keep()
        trial = trials[number]
        if "failed" in trial:
            continue
        print(f"\n{trial['trial']} of {config.search}: {_shown(trial, trials, work.metric)}")
        work.config = config.replace(**trial["settings"])
        try:
            folder = os.path.join(config.output, trial["trial"])
            with locked(folder):
                results = work.run(folder, work.features, config.seeds[0])
            trial.update(value=results["metrics"][work.metric], metrics=results["metrics"])
        except FloatingPointError as error:  # too high a learning rate
            trial.update(value=None, failed=str(error))
            print(f"{trial['trial']} failed: {error}")
        keep()
    trials = [trial for trial in trials if "value" in trial]
    good = [trial for trial in trials if trial["value"] is not None]
    if not good:
        raise ValueError(
            f"none of {len(trials)} trials came to an end, the first: {trials[0]['failed']}; give "
            "a lower `learning_rate`"
        )
    best = max(good, key=lambda trial: trial["value"])["trial"]
    runs = {trial["trial"]: [trial["metrics"]] for trial in good}
    if can_draw(PICTURE):
        plot_search(good, os.path.join(config.output, PICTURE), work.metric)
    found = _chosen(config, work, best, runs, _trials_table(trials, work.metric), {})
    results = task_folder.read_ending(os.path.join(found["folder"], task_folder.RESULTS))
    return {**results, **found, "trials": trials}


def _optuna() -> Any:
    """Return Optuna, which prints warnings alone."""
    optuna = needed("optuna", "optuna", "tune", "`search`")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _space(config: Any, work: Any) -> tuple[dict[str, list], dict[str, Any]]:
    """Return the numbers that are searched, with their ranges or choices, and the first ones."""
    defaults = work.defaults(work.features)
    rate, size, epochs = (defaults[n] for n in ("learning_rate", "batch_size", "epochs"))
    parts = work.strategy.num_replicas_in_sync * (config.accumulation or 1)
    sizes = [n for n in (size // 2, size, 2 * size) if n and n % parts == 0]
    fewest, most = max(1, round(epochs * 2 / 3)), round(epochs * 4 / 3)
    space = {
        "learning_rate": [rate / _FACTOR, rate * _FACTOR],
        "batch_size": sizes,
        "epochs": [float(n) for n in range(fewest, most + 1)],
    }
    if config.batch_tokens is not None:
        del space["batch_size"]
    space = {n: x for n, x in space.items() if n not in config.given and len(x) > 1}
    if not space:
        raise ValueError(
            "`search` has nothing to search: `learning_rate`, `batch_size` and `epochs` are given"
        )
    defaults["epochs"] = float(epochs)
    first = {  # the defaults, or the choice next to them
        name: defaults[name]
        if name == "learning_rate"
        else min(values, key=lambda value: abs(value - defaults[name]))
        for name, values in space.items()
    }
    return space, first


def _suggested(trials: list[dict[str, Any]], space: dict[str, list], seed: int) -> dict[str, Any]:
    optuna = _optuna()
    kinds = optuna.distributions
    ranges = {
        name: kinds.FloatDistribution(*values, log=True)
        if name == "learning_rate"
        else kinds.CategoricalDistribution(values)
        for name, values in space.items()
    }
    sampler = optuna.samplers.TPESampler(seed=1000 * seed + len(trials), n_startup_trials=_RANDOM)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    states = optuna.trial.TrialState
    for trial in trials:
        value = trial["value"]
        study.add_trial(
            optuna.trial.create_trial(
                state=states.FAIL if value is None else states.COMPLETE,
                value=value,
                params=trial["settings"],
                distributions=ranges,
            )
        )
    return study.ask(ranges).params


def _kept(output: str, space: dict[str, list]) -> list[dict[str, Any]]:
    path = os.path.join(output, STUDY)
    kept = task_folder.read_ending(path)
    if kept is None:
        return []
    if kept["space"] != space:
        raise ValueError(
            f"{path} is of a search among {kept['space']}, not {space}; give the same settings, "
            "another `output`, or `restart` to delete it"
        )
    return kept["trials"]


def _shown(trial: dict[str, Any], trials: list[dict[str, Any]], metric: str) -> str:
    """Return the settings of a trial as text, and the best value so far."""
    settings = ", ".join(f"{name} {value:.4g}" for name, value in trial["settings"].items())
    ended = [other for other in trials if other.get("value") is not None]
    if not ended:
        return settings
    best = max(ended, key=lambda other: other["value"])
    return f"{settings} (best so far: {metric} {best['value']:.4f}, {best['trial']})"


def _trials_table(trials: list[dict[str, Any]], metric: str) -> str:
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
