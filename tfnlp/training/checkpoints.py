"""Checkpoints that are written whole or not at all, and read only if they are whole."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import safetensors
from safetensors.numpy import save_file

from tfnlp.checksums import checksums
from tfnlp.files import (
    first_line,
    joined,
    listed,
    local_copy,
    make_folder,
    opened,
    remove,
    write_error,
    written_whole,
)
from tfnlp.training.randomness import without_seeds

_WEIGHTS, _STATE = "variables.safetensors", "state.json"
_NAME = re.compile(r"^(step|best|average)-(\d{10})$")
_SLOTS = "optimizer/"  # how names begin that only a run that goes on needs


class Checkpoints:
    """A folder of checkpoints: the last `keep` ones, the best one and an optional mean.

    Only the last ones, from which a run goes on, hold what is named `optimizer/...`.

    A checkpoint is a folder `step-0000001000` (or `best-...`, `average-...`) with the variables by
    name in `variables.safetensors`, and `state.json`, which has the checksums of both. It is
    written under another name and renamed when complete.

    Args:
        directory: any path that `tf.io.gfile` takes.
        variables: what is saved and restored, by name: objects that have `shape`, `dtype`,
            `numpy()` and `assign(value)`.
        keep: how many of the last checkpoints to keep.

    Raises:
        ValueError: for `keep` < 1.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        variables: Mapping[str, Any],
        keep: int = 3,
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep} must be at least 1")
        self.directory, self.keep = str(directory), keep
        self._variables = dict(variables)

    def save(self, step: int, state: Mapping[str, Any], kind: str = "step") -> str:
        """Write the variables and the `state`, which JSON can hold; return the path.

        Only the newest of the kinds "best" and "average" is kept.

        Raises:
            OSError: if it can't be written (a full disk, for example); nothing incomplete is left
                and the earlier checkpoints do not change.
        """
        slots = kind == "step" and state.get("slots", True)
        kept = self._kept(slots)
        arrays = {name: variable.numpy() for name, variable in kept.items()}
        return self.write(step, {**state, "slots": slots}, arrays, kind)

    def write(
        self, step: int, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray], kind: str
    ) -> str:
        """Write arrays by name in place of the variables; see `save`."""
        final = joined(self.directory, f"{kind}-{step:010d}")
        try:
            make_folder(self.directory)
            with written_whole(final) as partial:
                os.mkdir(partial)
                whole = {name: np.asarray(x, order="C") for name, x in arrays.items()}
                save_file(whole, os.path.join(partial, _WEIGHTS))
                text = json.dumps({"step": step, **state}, sort_keys=True)
                record = {"crc32": zlib.crc32(text.encode()), "state": text}
                with open(os.path.join(partial, _STATE), "w", encoding="utf-8") as file:
                    json.dump({**record, "files": checksums(partial, [_WEIGHTS])}, file)
        except OSError as error:
            then = ", then start again: the run resumes from the last whole checkpoint"
            raise write_error(f"checkpoint {final}", error, then) from error
        for _, old in self.paths(kind)[: -self.keep if kind == "step" else -1]:
            remove(old)
        return final

    def paths(self, kind: str = "step") -> list[tuple[int, str]]:
        """Return `(step, path)` of the whole checkpoints of a kind, oldest first."""
        names = map(_NAME.match, listed(self.directory))
        found = [match for match in names if match and match[1] == kind]
        return sorted((int(match[2]), joined(self.directory, match[0])) for match in found)

    def restore(self, path: str) -> dict[str, Any]:
        """Read the variables of one checkpoint; return its state.

        Raises:
            ValueError: if a part is missing, truncated, altered, or of another shape, or if a
                variable holds a number that is not finite.
        """
        state = read_state(path)
        kept = self._kept(state.pop("slots", True))
        # A model is also restored without its optimizer: not all that is there is read.
        arrays = read_arrays(path, lambda name: name in kept)
        for name, variable in kept.items():
            shape = arrays[name].shape if name in arrays else None
            if shape != tuple(variable.shape):
                raise ValueError(
                    f"checkpoint {path} cannot be read: {name!r} is {shape}, not {variable.shape}"
                )
        check_finite(f"checkpoint {path}", arrays)
        for name, variable in kept.items():
            variable.assign(arrays[name])
        return state

    def _kept(self, slots: bool) -> dict[str, Any]:
        """Return the variables of a checkpoint with or without the optimizer's slots."""
        return {n: v for n, v in self._variables.items() if slots or not n.startswith(_SLOTS)}

    def restore_latest(self) -> dict[str, Any] | None:
        """Read the newest checkpoint that is whole; return its state, or None if there is none.

        A corrupt one is skipped with a warning.

        Raises:
            ValueError: if there are checkpoints, but none can be read.
        """
        state, paths = self._restore_first("step", "trying the one before"), self.paths()
        if state is None and paths:
            raise ValueError(
                f"none of the {len(paths)} checkpoints in {self.directory} can be read; "
                "was the model built with other sizes or layer names? Choose another directory to "
                "start a new run"
            )
        return state

    def restore_best(self) -> dict[str, Any] | None:
        """Read the best checkpoint, or the latest if none is marked; return its state."""
        best = self._restore_first("best", "using the latest checkpoint")
        return self.restore_latest() if best is None else best

    def _restore_first(self, kind: str, instead: str) -> dict[str, Any] | None:
        """Read the newest checkpoint of a kind that can be read; return its state, or None."""
        for _, path in reversed(self.paths(kind)):
            try:
                return self.restore(path)
            except ValueError as error:
                warnings.warn(f"{error}; {instead}", stacklevel=3)
        return None

    def newest_state(self, kinds: Sequence[str] = ("step", "best")) -> dict[str, Any]:
        """Return the state of the newest checkpoint of these kinds that can be read, or {}."""
        for _, path in sorted((x for kind in kinds for x in self.paths(kind)), reverse=True):
            with contextlib.suppress(ValueError):  # of one that is damaged
                return read_state(path)
        return {}

    def restore_average(self) -> dict[str, Any]:
        """Read the mean of checkpoints; return its state.

        Raises:
            FileNotFoundError: if there is none.
            ValueError: if it can't be read.
        """
        paths = self.paths("average")
        if not paths:
            raise FileNotFoundError(
                f"{self.directory} holds no mean of checkpoints; make one with "
                "tfnlp.training.average_checkpoints"
            )
        return self.restore(paths[-1][1])


def read_state(path: str) -> dict[str, Any]:
    """Return the state of one checkpoint, and its step; ValueError if it is damaged."""
    try:
        with opened(joined(path, _STATE)) as file:
            record = json.loads(file.read())
        if zlib.crc32(record["state"].encode()) != record["crc32"]:
            raise ValueError(f"{_STATE} does not match its checksum")
        return json.loads(record["state"])
    except Exception as error:  # damage raises OpError, KeyError, TypeError, ...
        raise _damaged(path, error) from error


def read_arrays(path: str, wanted: Callable[[str], bool]) -> dict[str, np.ndarray]:
    """Return the variables of one checkpoint whose names are wanted; ValueError if damaged."""
    try:
        with opened(joined(path, _STATE)) as file:
            recorded = json.loads(file.read())["files"]
        with local_copy(path) as local:
            if recorded != checksums(local, [_WEIGHTS]):
                raise ValueError(f"{_WEIGHTS} does not match its checksum")
            with safetensors.safe_open(os.path.join(local, _WEIGHTS), framework="np") as file:
                return {name: file.get_tensor(name) for name in file.keys() if wanted(name)}
    except Exception as error:  # damage raises OSError, KeyError, SafetensorError, ...
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> ValueError:
    return ValueError(f"checkpoint {path} cannot be read: {first_line(error)}")


def check_finite(source: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Check arrays by name; ValueError names their source and one that is not finite."""
    for name, array in arrays.items():
        if array.dtype.kind not in "iub" and not np.isfinite(array).all():
            raise ValueError(f"{source} holds numbers that are not finite in {name!r}")


def model_variables(model: keras.Model) -> dict[str, Any]:
    """Return the variables of a Keras model that a checkpoint keeps, by name.

    Dropout seeds are not among them: they follow from the step (see `randomness`).
    """
    return {f"model/{v.path}": v for v in without_seeds(model.variables)}


def average_checkpoints(run: str | os.PathLike[str], last: int = 5) -> str:
    """Write the mean of the weights of the last checkpoints (Vaswani et al. 2017, section 6.1).

    The mean is a checkpoint of its own kind beside the others, without the optimizer;
    `restore_weights(run, model, average=True)` reads it. It replaces an earlier one. The run does
    not change: it resumes from its last step, and its best checkpoint stays the best.

    Args:
        run: a run's folder; it must have kept enough checkpoints.
        last: K, how many to average.

    Returns:
        The path of the new checkpoint.

    Raises:
        ValueError: for `last` < 1, fewer checkpoints than that, or one that can't be read.
        OSError: if the mean can't be written.
    """
    if last < 1:
        raise ValueError(f"last={last} must be at least 1")
    folder = joined(run, "checkpoints")
    paths = [path for _, path in Checkpoints(folder, {}).paths()]
    if len(paths) < last:
        raise ValueError(
            f"{folder} holds {len(paths)} checkpoints, fewer than last={last}; average fewer, or "
            f"let the run keep {last} or more"
        )
    sums = {}
    for path in paths[-last:]:
        state, weights = read_state(path), read_arrays(path, lambda name: name.startswith("model/"))
        sums = {name: sums.get(name, 0.0) + v.astype("float64") for name, v in weights.items()}
    arrays = {name: (total / last).astype(weights[name].dtype) for name, total in sums.items()}
    step = state.pop("step")
    return Checkpoints(folder, {}).write(step, {**state, "slots": False}, arrays, "average")


def drop_slots(run: str | os.PathLike[str]) -> None:
    """Write the last checkpoints of a run that has ended anew, without the optimizer's slots."""
    folder = joined(run, "checkpoints")
    paths = Checkpoints(folder, {}).paths()
    for _, path in paths:
        state = read_state(path)
        if state.get("slots", True):
            arrays = read_arrays(path, lambda name: not name.startswith(_SLOTS))
            step, state = state.pop("step"), {**state, "slots": False}
            Checkpoints(folder, {}, len(paths)).write(step, state, arrays, "step")


def jsonable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as they are after writing and reading JSON."""

    def plain(value: Any) -> Any:
        return value.item() if hasattr(value, "item") else str(value)

    return json.loads(json.dumps(settings, default=plain))


def check_settings(directory: str, checkpoints: Checkpoints, settings: dict[str, Any]) -> None:
    """Check that the newest checkpoint, if there is one, is of a run with these settings."""
    changed = differences(checkpoints.newest_state(["step"]).get("settings", {}), settings)
    if changed:
        raise ValueError(
            f"{directory} holds a run with other settings ({'; '.join(changed)}); "
            "give the same settings to resume it, or another directory to start a new one"
        )


def differences(old: Any, new: Any, exactly: bool = False, name: str = "") -> list[str]:
    """Return a text for each setting that differs.

    If not `exactly`, those that both have count, and floats that differ by less than 1e-4 of their
    size are equal: a schedule is not computed to the same bit everywhere.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(old.keys() | new.keys()) if exactly else [key for key in old if key in new]
        pairs = [(f"{name}.{key}", old.get(key), new.get(key)) for key in keys]
        return [d for key, a, b in pairs for d in differences(a, b, exactly, key)]
    floats = isinstance(old, float) and isinstance(new, int | float) and not exactly
    same = old == new or (floats and math.isclose(old, new, rel_tol=1e-4))
    return [] if same else [f"{name.lstrip('.')} was {old}, now {new}"]
