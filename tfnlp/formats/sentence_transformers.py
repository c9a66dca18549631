"""Folders of the library sentence-transformers: an encoder, and how its tokens become a vector."""

from __future__ import annotations

import os
from typing import Any

from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.encoders import save_encoder
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.sentence_transformers import (
    MODULES,
    read_sentences,
    transformer_folder,
)
from tfnlp.formats.format import Format, Place
from tfnlp.formats.huggingface import HuggingFace


class SentenceTransformers(Format):
    """Hugging Face's files with `modules.json` and the pooling."""

    name = "sentence-transformers"
    title = "the files of sentence-transformers"

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and isinstance(model.family.files, EncoderFiles)

    def why_not(self, model: Any) -> str:
        has = model.vocabulary is not None
        return "" if has else "has no vocabulary, which sentence-transformers needs"

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        how, layers = model.family.sentence_settings(model), model.sentence_layers
        save_encoder(
            model.family.files, model.encoder, folder, model.tokenizer, settings.overwrite, how,
            layers,
        )  # fmt: skip
        return {"checkpoint": folder}

    def recognises(self, place: Place) -> bool:
        has_modules = MODULES in place.names and os.path.isdir(place.path)
        return has_modules and _HUGGINGFACE.recognises(_encoder(place))

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        loaded = _HUGGINGFACE.read(_encoder(place), dtype)
        size, positions = (loaded.config.get(name) for name in ("hidden_size", "max_positions"))
        loaded.sentences, loaded.sentence_layers = read_sentences(
            place.path, size, positions, loaded.lowercase
        )
        return loaded


_HUGGINGFACE = HuggingFace()


def _encoder(place: Place) -> Place:
    """Return the place of the encoder's files."""
    return Place.at(transformer_folder(place.path), place.families, place.opened)
