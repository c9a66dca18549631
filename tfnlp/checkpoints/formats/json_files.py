"""JSON files of checkpoints."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from tfnlp.checkpoints.formats.tensors import Refused, reason
from tfnlp.files import written_whole
from tfnlp.text.lines import shown


def read_json(path: pathlib.Path, kind: type = dict) -> Any:
    """Read a JSON file that holds an object (`kind` dict) or an array (list)."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found and found[key] != value:
                raise Refused(f"{path} has the key {shown(key)} twice, with different values")
            found[key] = value
        return found

    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=members)
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file ({reason(error)}); fetch it again") from error
    if not isinstance(value, kind):
        raise ValueError(
            f"{path} holds a JSON {type(value).__name__}; expected "
            f"{'an object' if kind is dict else 'an array'}"
        )
    return value


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Write a JSON file, indented by 2, whole or not at all (see `tfnlp.files.written_whole`)."""
    with written_whole(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
