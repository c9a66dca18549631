"""The settings of a `Trainer` that decide what a run computes, kept in its checkpoints."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from tfnlp.training.checkpoints import Checkpoints, read_state
from tfnlp.training.keras_optimizer import KerasOptimizer
from tfnlp.training.optimizer_base import Optimizer

_RATE_STEPS = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)


def optimizer_settings(optimizer: Optimizer | KerasOptimizer) -> dict[str, Any]:
    """Return the class and the arguments of an optimizer."""
    if isinstance(optimizer, KerasOptimizer):
        return {"name": f"keras.{type(optimizer.optimizer).__name__}", **optimizer.settings()}
    arguments = inspect.signature(type(optimizer)).parameters
    values = {name: getattr(optimizer, name, None) for name in arguments}
    return {"name": type(optimizer).__name__, **values}


def rate_settings(rate: Callable[[int], Any], total_steps: int) -> dict[str, float]:
    """Return a learning rate at some steps: a function has no other identity."""
    steps = [step for step in _RATE_STEPS if step < total_steps]
    return {str(step): float(f"{float(rate(step)):.6g}") for step in steps}


def jsonable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as they are after writing and reading JSON."""
    return json.loads(json.dumps(settings, default=_plain))


def check_settings(directory: str, checkpoints: Checkpoints, settings: dict[str, Any]) -> None:
    """Check that the newest checkpoint, if there is one, is of a run with these settings.

    They are what `jsonable` returned. The ValueError names those that differ.
    """
    for _, path in reversed(checkpoints.paths()):
        try:
            state = read_state(path)
        except ValueError:
            continue  # damaged; `restore_latest` warns of it
        changed = differences(state["settings"], settings)
        if changed:
            raise ValueError(
                f"{directory} holds a run with other settings ({'; '.join(changed)}); "
                "give the same settings to resume it, or another directory to start a new one"
            )
        return


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """Return a text for each setting that both have and that differs.

    Numbers that differ by less than 1e-4 of their size count as equal: a schedule is not computed
    to the same bit everywhere.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        both = [key for key in old if key in new]
        return [d for key in both for d in differences(old[key], new[key], f"{name}.{key}")]
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (old, new))
    same = math.isclose(old, new, rel_tol=1e-4) if numbers else old == new
    return [] if same else [f"{name.lstrip('.')} was {old}, now {new}"]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
