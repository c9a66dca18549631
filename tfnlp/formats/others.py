"""Files of others: word vectors, bilm-tf and AllenNLP, Google's BERT, OpenAI's GPTs, keras-hub."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from tfnlp.checkpoints.elmo import load_elmo, save_elmo
from tfnlp.checkpoints.keras_hub import is_preset, read_preset
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.word_vectors import read_word_vectors, word_vectors_kind, write_word_vectors
from tfnlp.formats.format import Format, Place


class WordVectorsFile(Format):
    """A file of one of the kinds that `write_word_vectors` writes; any of them is read."""

    title = "a file of word vectors"
    family = "word2vec"  # of the models that are read

    def __init__(self, name: str) -> None:
        self.name = name

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and model.word_vectors is not None

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        write_word_vectors(folder, model.word_vectors, self.name, settings.overwrite)
        return {"vectors": folder}

    def recognises(self, place: Place) -> bool:
        return os.path.isfile(place.path) and word_vectors_kind(place.path) is not None

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        vectors = read_word_vectors(place.path)
        family = place.families[self.family]
        return Pretrained(None, None, {}, words=vectors.words, word_vectors=vectors, family=family)


class Bilm(Format):
    """`options.json` and `weights.hdf5` of an ELMo."""

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


class ReadFormat(Format):
    """A format that is only read, of one family if nothing else is said."""

    family: ClassVar[str]

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        family = place.families[self.family]
        loaded = family.files.load(place.path, dtype=dtype)
        loaded.family = family
        return loaded


class Google(ReadFormat):
    """A checkpoint beside `bert_config.json`, or a `config.json` that states no type of model."""

    family = "bert"

    def recognises(self, place: Place) -> bool:
        has_config = {"bert_config.json", "config.json"} & set(place.names)
        return bool(has_config) and place.model_type is None


class OpenAI(ReadFormat):
    """`params_*.npy` of GPT, or a checkpoint beside `hparams.json` of GPT-2."""

    family = "gpt"

    def recognises(self, place: Place) -> bool:
        files = {"params_shapes.json", "params_0.npy", "hparams.json", "encoder.json"}
        return not files.isdisjoint(place.names)


class KerasHub(ReadFormat):
    """A folder that `save_to_preset` wrote, or "keras_hub:" and the name of a published preset.

    `tfnlp.checkpoints.to_keras_hub` makes keras-hub's models.
    """

    def recognises(self, place: Place) -> bool:
        return is_preset(place.path)

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        name, loaded = read_preset(place.path, dtype)
        loaded.family = place.families[name]
        return loaded
