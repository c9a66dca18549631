"""The files of bilm-tf and AllenNLP: an ELMo's options and its weights in HDF5."""

from __future__ import annotations

from typing import Any

from tfnlp.checkpoints.elmo import load_elmo, save_elmo
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.formats.format import Format, Place


class Bilm(Format):
    """`options.json` and `weights.hdf5`."""

    name = "bilm"
    title = "the files of bilm-tf"
    family = "elmo"

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and model.family.name == self.family

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        save_elmo(folder, model.encoder, model.pretrainer, settings.overwrite)
        return {"checkpoint": folder}

    def recognises(self, place: Place) -> bool:
        return any(name.endswith(".hdf5") for name in place.names)

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        loaded = load_elmo(place.path, dtype=dtype)
        loaded.family = place.families[self.family]
        return loaded
