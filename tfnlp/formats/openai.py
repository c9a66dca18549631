"""The files of OpenAI: the arrays of GPT, TensorFlow's checkpoint of GPT-2. They are only read."""

from __future__ import annotations

from tfnlp.formats.format import Place, ReadFormat

_FILES = {"params_shapes.json", "params_0.npy", "hparams.json", "encoder.json"}


class OpenAI(ReadFormat):
    """`params_*.npy` of GPT, or a checkpoint beside `hparams.json` of GPT-2."""

    family = "gpt"

    def recognises(self, place: Place) -> bool:
        return not _FILES.isdisjoint(place.names)
