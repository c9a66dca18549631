"""A search for the learning rate, batch size and epochs of a fine-tuning, with Optuna's TPE.

RUN/study.json   the trials: what each was given and what came of it
RUN/trial-N      a run each
RUN/runs.json    the best of them
RUN/search.png
"""

import glob
import json
import os
from typing import Any

from tfnlp.extras import needed
from tfnlp.files import write_lines
from tfnlp.locks import locked
from tfnlp.pictures import can_draw, plot_search
from tfnlp.runs import task_folder
from tfnlp.runs.several import trials_table, write_runs

STUDY, PICTURE = "study.json", "search.png"
_RANDOM = 5  # trials that are drawn at random before TPE has something to go by
_FACTOR = 4.0  # of the default learning rate, up and down


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
    space, defaults = _space(config, work)
    trials = _kept(config.output, space)
    for number in range(config.search):
        if number == len(trials):
            given = (
                _suggested(trials, space, config.seeds[0]) if trials else _first(space, defaults)
            )
            trials.append({"trial": f"trial-{number + 1}", "settings": given})
            _write(config.output, space, trials)
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
        _write(config.output, space, trials)
    return _ended(config, work, [trial for trial in trials if "value" in trial])


def _ended(config: Any, work: Any, trials: list[dict[str, Any]]) -> dict[str, Any]:
    good = [trial for trial in trials if trial.get("value") is not None]
    if not good:
        raise ValueError(
            f"none of {len(trials)} trials came to an end, the first: {trials[0]['failed']}; give "
            "a lower `learning_rate`"
        )
    best = max(good, key=lambda trial: trial["value"])
    runs = {trial["trial"]: [trial["metrics"]] for trial in good}
    found = {"best": best["trial"], "metric": work.metric, "runs": runs}
    write_runs(config.output, found)
    if can_draw(PICTURE):
        plot_search(good, os.path.join(config.output, PICTURE), work.metric)
    folder = os.path.join(config.output, best["trial"])
    print(f"\n{trials_table(trials, work.metric)}\nbest: {folder}", flush=True)
    results = task_folder.read_json(os.path.join(folder, task_folder.RESULTS))
    return {**results, "folder": folder, "runs": runs, "trials": trials}


def _optuna() -> Any:
    """Return Optuna, which prints warnings alone."""
    optuna = needed("optuna", "optuna", "tune", "`search`")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _space(config: Any, work: Any) -> tuple[dict[str, list], dict[str, Any]]:
    """Return the numbers that are searched, with their ranges or choices, and the defaults."""
    defaults = work.defaults()
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
    return space, {**defaults, "epochs": float(epochs)}


def _first(space: dict[str, list], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults, or the choice next to them."""
    found = {name: defaults[name] for name in space}
    for name in set(found) - {"learning_rate"}:
        found[name] = min(space[name], key=lambda value: abs(value - defaults[name]))
    return found


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
    kept = task_folder.read_json(path)
    if kept is None:
        return []
    if kept["space"] != space:
        raise ValueError(
            f"{path} is of a search among {kept['space']}, not {space}; give the same settings, "
            "another `output`, or `restart` to delete it"
        )
    return kept["trials"]


def _write(output: str, space: dict[str, list], trials: list[dict[str, Any]]) -> None:
    os.makedirs(output, exist_ok=True)
    path = os.path.join(output, STUDY)
    write_lines(path, [json.dumps({"space": space, "trials": trials}, indent=2)])


def _shown(trial: dict[str, Any], trials: list[dict[str, Any]], metric: str) -> str:
    """Return the settings of a trial as text, and the best value so far."""
    settings = ", ".join(f"{name} {value:.4g}" for name, value in trial["settings"].items())
    ended = [other for other in trials if other.get("value") is not None]
    if not ended:
        return settings
    best = max(ended, key=lambda other: other["value"])
    return f"{settings} (best so far: {metric} {best['value']:.4f}, {best['trial']})"
