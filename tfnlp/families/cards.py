"""The model card of a pretrained model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tfnlp.cards import Card, licence_of

if TYPE_CHECKING:
    from tfnlp.checkpoints.pretrained import Pretrained


def shown_name(path: str) -> str:
    """Return the name of a published model, or the last part of a path: it is of one machine."""
    return path if not path or "://" in path else os.path.basename(os.path.normpath(path))


def base_of(loaded: Pretrained) -> tuple[str, str | None]:
    """Return the name and the licence of a model that something is made of."""
    path = str(loaded.path or "")
    return shown_name(path), licence_of(loaded.folder or path or None)


def data_lines(corpus: Any) -> tuple[str, ...]:
    """Return what a run recorded of its text: sizes and checksums, a line."""
    if not isinstance(corpus, dict):
        return ()
    lines = []
    for name, value in corpus.items():
        if name == "crc32" and isinstance(value, int):
            lines.append(f"CRC-32 {value:08x}")
        elif isinstance(value, int | float):
            lines.append(f"{value:,} {name}")
        elif isinstance(value, str):
            lines.append(f"{name} {value}")
    return tuple(lines)


def card_of(loaded: Pretrained) -> Card:
    """Return the card of a pretrained model: of a run what it recorded, of others what is known."""
    title, run = loaded.family.title, loaded.run
    if run is None:
        base, licence = base_of(loaded)
        return Card(f"The weights of {title}, from {base}.", base, licence)
    training = dict(run.get("training") or {})
    begun = training.get("from")
    base = "" if begun is None else shown_name(str(begun))
    rows = [] if loaded.history is None else loaded.history.validation
    measures, on = {}, ""
    if rows:
        names = [name for name in rows[-1] if name != "step"]
        monitor = "loss" if "loss" in names else names[0]
        best = loaded.history.best_step(monitor)
        row = next(row for row in rows if row["step"] == best)
        measures = {k: v for k, v in row.items() if k != "step" and isinstance(v, float | int)}
        on = f"held-out text, step {best}"
    version = f" {run['tfnlp']}" if "tfnlp" in run else ""
    return Card(
        f"{title[0].upper()}{title[1:]}, pretrained by tfnlp{version}.",
        base,
        None,
        data_lines(run.get("corpus") or run.get("data")),
        {**(run.get("arguments") or {}), **training},
        measures,
        on,
    )
