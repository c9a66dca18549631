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


class Word2VecFile(Format):
    """A text file whose first line has the numbers of words and of their components."""

    name = "word2vec"
    title = "a file of word vectors"
    family = "word2vec"  # of the models that are read

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and model.word_vectors is not None

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        write_word_vectors(folder, model.word_vectors, self.name, settings.overwrite)
        return {"vectors": folder}

    def recognises(self, place: Place) -> bool:
        """Return whether a path is a file of any of these formats: its first bytes tell."""
        return os.path.isfile(place.path) and word_vectors_kind(place.path) is not None

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        vectors = read_word_vectors(place.path)
        family = place.families[self.family]
        return Pretrained(None, None, {}, words=vectors.words, word_vectors=vectors, family=family)


class Word2VecBinary(Word2VecFile):
    """The binary file of word2vec."""

    name = "word2vec-binary"


class FastTextFile(Word2VecFile):
    """A `.vec` file of fastText."""

    name = "fasttext"


class FastTextBinary(Word2VecFile):
    """A `.bin` file of fastText, with the n-grams."""

    name = "fasttext-binary"


class GloveFile(Word2VecFile):
    """A file of GloVe."""

    name = "glove"
