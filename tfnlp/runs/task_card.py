"""The model card of a fine-tuned model."""

import os
from collections.abc import Mapping
from typing import Any

from tfnlp.cards import Card, base_of, data_lines, licence_of, shown_name
from tfnlp.families import FAMILIES
from tfnlp.tasks import HeadTask

_MANY = 20  # labels that are listed


def facts_of(
    backbone: Any, train: Any, dev: Any, examples: int, dev_examples: int
) -> dict[str, Any]:
    """Return what `results.json` keeps for the card beside the measures.

    `dev` is None if some of `train` were held out.
    """
    data = {"train": source_names(train), "examples": examples}
    data["dev"] = [f"{x}, held out" for x in data["train"]] if dev is None else source_names(dev)
    data["dev_examples"] = dev_examples
    path = None if backbone.path is None else os.fspath(backbone.path)
    if path is not None and os.path.exists(path):
        path = os.path.abspath(path)
    return {"base": path, "licence": base_of(backbone)[1], "data": data}


def source_names(source: Any) -> list[str]:
    """Return the names of files, without their folders; of Python's rows none."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(paths, list | tuple):
        return []
    paths = [os.fspath(path) for path in paths if isinstance(path, str | os.PathLike)]
    return [path if path.startswith("tfds:") else os.path.basename(path) for path in paths]


def card_of_task(
    task: HeadTask,
    config: Mapping[str, Any],
    results: Mapping[str, Any] | None,
    folder: str,
    path: str = "",
) -> Card:
    """Return the card of a fine-tuned model, of its `config.json` and `results.json`.

    `folder` is where a checkpoint of somebody else is, and `path` what it was called.
    """
    results = results or {}
    title = FAMILIES[config["backbone"]["kind"]].title
    name, licence = shown_name(results.get("base") or ""), results.get("licence")
    if not results:  # somebody's checkpoint
        name, licence = shown_name(path or folder), licence_of(folder)
    published = config["backbone"].get("published") or {}
    name = published.get("name", name) or f"{title}, whose name is not recorded"
    recorded, names = config.get("data") or {}, results.get("data") or {}
    recorded = {key: recorded[key] for key in ("examples", "crc32") if key in recorded}
    measured = results.get("metrics") or {}
    labels = ", ".join(task.labels[:_MANY]) + (", ..." if len(task.labels) > _MANY else "")
    return Card(
        f"{title[0].upper()}{title[1:]}, fine-tuned to {task.does}"
        + (f": {labels}." if labels else "."),
        name,
        licence,
        (", ".join([*names.get("train", ()), *data_lines(recorded)]),) if recorded else (),
        {
            **({"features": config["features"]} if config.get("features") else {}),
            "max_length": task.max_length,
            **(config.get("training") or {}),
        },
        {k: v for k, v in measured.items() if isinstance(v, float | int) and "/" not in k},
        _measured_on(names),
        task.pipeline,
    )


def _measured_on(names: dict[str, Any]) -> str:
    parts = [*names.get("dev", ())]
    if "dev_examples" in names:
        parts.append(f"{names['dev_examples']:,} examples")
    return ", ".join(parts) or "the dev examples of the run"
