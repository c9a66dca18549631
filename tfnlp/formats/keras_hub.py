"""Presets of keras-hub. They are only read: `tfnlp.checkpoints.to_keras_hub` makes its models."""

from __future__ import annotations

from tfnlp.checkpoints.keras_hub import is_preset, read_preset
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.formats.format import Place, ReadFormat


class KerasHub(ReadFormat):
    """A folder that `save_to_preset` wrote, or "keras_hub:" and the name of a published preset."""

    def recognises(self, place: Place) -> bool:
        return is_preset(place.path)

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        name, loaded = read_preset(place.path, dtype)
        loaded.family = place.families[name]
        return loaded
