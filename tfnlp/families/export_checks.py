"""Checks of the settings of an export."""

from typing import Any

from tfnlp.settings.options import Settings
from tfnlp.settings.use import ExportSettings


def chosen(config: Settings, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of `names` that have a value, as keywords."""
    values = {name: getattr(config, name) for name in names}
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def check_format(config: ExportSettings, others: tuple[str, ...], title: str) -> str:
    """Return the format, "savedmodel" by default."""
    chosen_format = config.format or "savedmodel"
    if chosen_format not in ("savedmodel", *others):
        *first, last = ("savedmodel", *others)
        raise ValueError(
            f"`format` {chosen_format} is not for {title}; choose {', '.join(first)} or {last}"
        )
    return chosen_format


def only_savedmodel(config: ExportSettings, names: tuple[str, ...]) -> None:
    """Refuse arguments that only SavedModels have."""
    for name in chosen(config, names):
        raise ValueError(f"`{name}` is for a SavedModel, not for `format` {config.format}")
