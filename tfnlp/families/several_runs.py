"""A folder of several runs of fine-tuning, of which it says the best."""

import json
import os
from typing import Any

RUNS = "runs.json"


def best_run(folder: str) -> str:
    """Return the folder of the best of several runs under `folder`, or `folder` itself."""
    from tfnlp.text.lines import shown

    path = os.path.join(folder, RUNS)
    runs = read_json(path)
    if runs is None:
        return folder
    name = runs.get("best") if isinstance(runs, dict) else None
    parts = name.split("/") if isinstance(name, str) else [""]
    if not all(parts) or {".", ".."} & set(parts) or "\\" in name or "\0" in name:
        raise ValueError(f"{path} has best={shown(name)}; expected the path of a folder beside it")
    return os.path.join(folder, name)


def read_json(path: str) -> Any:
    """Return what a file that a run ends with says; None if there is no such file."""
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not valid JSON ({error}); delete it and run the same `tfnlp finetune` again"
        ) from error
