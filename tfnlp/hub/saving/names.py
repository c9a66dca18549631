"""Names of the tensors in nested inputs and outputs, for signatures."""

import keyword
import re
from collections.abc import Iterable, Iterator
from typing import Any


def leaf_names(structure: Any, top: bool = False) -> list[str]:
    """Return unique names of the tensors in `structure`, in the order of `tf.nest.flatten`.

    The name of a tensor in a dict is its key; in a list in a dict, the key and a number
    (`encoder_outputs_0`); otherwise the name of the layer that made it. With `top` it is the key in
    the outermost dict, not unique, and "" if there is none.
    """
    found = []
    for path, x in _leaves(structure, ()):
        if top:
            found.append(path[0] if path and isinstance(path[0], str) else "")
            continue
        keys = [i for i, part in enumerate(path) if isinstance(part, str)]
        if keys:
            name = "_".join(map(str, path[keys[0] :]))
        else:
            history = getattr(x, "_keras_history", None)
            name = history.operation.name if history is not None else x.name
        found.append(name)
    return found if top else _unique(found)


def argument_names(names: Iterable[str]) -> list[str]:
    """Return the names as unique Python identifiers, which the inputs of signatures must be."""
    found = []
    for name in names:
        name = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not name or name[0].isdigit() or keyword.iskeyword(name):
            name = f"input_{name}"
        found.append(name)
    return _unique(found)


def _leaves(structure: Any, path: tuple) -> Iterator[tuple[tuple, Any]]:
    if isinstance(structure, dict):
        for key in sorted(structure):
            yield from _leaves(structure[key], (*path, str(key)))
    elif isinstance(structure, list | tuple):
        for i, x in enumerate(structure):
            yield from _leaves(x, (*path, i))
    else:
        yield path, structure


def _unique(names: list[str]) -> list[str]:
    used, found = set(names), []
    for i, name in enumerate(names):
        unique, number = name, 0
        while unique in found or (number and unique in used):
            number += 1
            unique = f"{names[i]}_{number}"
        found.append(unique)
    return found
