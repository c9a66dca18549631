"""Files of word vectors: word2vec (text and binary), fastText and GloVe."""

from __future__ import annotations

import os
from typing import Any

from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.word_vectors import (
    read_word_vectors,
    word_vectors_kind,
    write_word_vectors,
)
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
