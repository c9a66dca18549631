"""A module with its actions: loaded from wherever `tfnlp inspect` finds it."""

import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tfnlp.families.published import opened_modules
from tfnlp.hub import Inspection, inspect, load
from tfnlp.serving.actions.action import Action, Row
from tfnlp.serving.pairs import has_mlm, pair_actions, reads_ids
from tfnlp.serving.recognition import actions_of

_ENCODERS = ("encoder", "model")
_PREPROCESSOR = "preprocessor"
_NO_MASKS = (
    "This module can't fill masks. `tfnlp export --fill` writes one that does, of a model with a "
    "masked-LM head."
)
_NO_ATTENTION = "This module does not return its attention: its model has none."
_ALONE = "Neighbours need the folder with `model` and `preprocessor` in it."


@dataclass
class ServedModule:
    """What is served: actions by name, what its README.md says, and what it can't do."""

    path: str
    actions: dict[str, Action]
    card: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def run(self, key: Hashable, rows: list[Row]) -> list[Row]:
        """Return the results of rows, for `tfnlp.serving.batching.Batcher`."""
        name, *_ = key
        return self.actions[name].run(rows)

    def described(self) -> dict[str, Any]:
        """Return what the page shows."""
        name = os.path.basename(self.path.rstrip("/")) or self.path
        return {
            "name": name,
            "card": self.card,
            "actions": [action.described() for action in self.actions.values()],
            "notes": self.notes,
        }


def load_served(path: str | os.PathLike) -> ServedModule:
    """Load a module and find out what it can do; `path` is what `tfnlp.inspect` takes."""
    path = os.fspath(path)
    with opened_modules(path) as folders:
        return _loaded(path, [inspect(folder) for folder in folders])


def _loaded(path: str, found: list[Inspection]) -> ServedModule:
    modules = [load(one.path) for one in found]
    names = [os.path.basename(one.path) for one in found]
    card = next((one.card for one in found if one.card), {})
    if names[0] in _ENCODERS and names[1:] == [_PREPROCESSOR]:
        actions, notes = _of_pair(found, modules)
    else:
        actions, notes = _of_one(found[0], modules[0])
    return ServedModule(path, {action.name: action for action in actions}, card, notes)


def _of_one(found: Inspection, module: Any) -> tuple[list[Action], list[str]]:
    names = {function.name for function in found.functions}
    if {"encoder", _PREPROCESSOR} <= names:  # of `tfnlp export --combined`
        taken = reads_ids(found, "encoder")
        if taken:
            encode = _reading(taken, module.encoder)
            return pair_actions(module.preprocessor, encode), [_NO_MASKS]
    actions = actions_of(found, module)
    known = {action.name for action in actions}
    if "write" in known:
        return actions, [_ALONE]
    if "translate" in known and not actions[0].options:
        return actions, [_NO_ATTENTION]
    return actions, []


def _of_pair(found: list[Inspection], modules: list[Any]) -> tuple[list[Action], list[str]]:
    """Return the actions of an encoder, or a GPT's model, with its preprocessor."""
    encoder, preprocessor = modules
    encode = _reading(reads_ids(found[0]), encoder)
    if "generate" in encoder.signatures:
        written = actions_of(found[0], encoder)
        return [*written, *pair_actions(preprocessor, encode)], []
    if not has_mlm(found[0]):
        return pair_actions(preprocessor, encode), [_NO_MASKS]
    folder = os.path.dirname(found[0].path)
    return pair_actions(preprocessor, encode, encoder.mlm, folder), []


def _reading(names: set[str], encoder: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return an encoder as a function of a dict that may hold more than it reads."""
    return lambda packed: encoder({name: packed[name] for name in names})
