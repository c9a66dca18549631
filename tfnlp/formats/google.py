"""The files of Google's BERT (google-research/bert), which are only read."""

from __future__ import annotations

from tfnlp.formats.format import Place, ReadFormat


class Google(ReadFormat):
    """A checkpoint beside `bert_config.json`, or a `config.json` that states no type of model."""

    family = "bert"

    def recognises(self, place: Place) -> bool:
        has_config = {"bert_config.json", "config.json"} & set(place.names)
        return bool(has_config) and place.model_type is None
