"""Hugging Face's files: what transformers writes, and the library sentence-transformers."""

from __future__ import annotations

import os
from typing import Any

from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.folders import new_folder
from tfnlp.checkpoints.heads import architecture_of
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.checkpoints.sentence_transformers import (
    MODULES,
    SENTENCE_FILES,
    read_sentences,
    transformer_folder,
    write_sentence_settings,
)
from tfnlp.formats.format import Format, Place
from tfnlp.formats.graphed import why_only_module


class HuggingFace(Format):
    """`config.json`, `model.safetensors` and the files of a tokenizer."""

    name = "huggingface"
    title = "the files of Hugging Face"

    def is_for(self, model: Any) -> bool:
        if isinstance(model, Pretrained):
            return model.family.files is not None
        return hasattr(model, "task_model")

    def why_not(self, model: Any) -> str:
        if isinstance(model, Pretrained):
            return ""
        if model.config["features"] is not None:
            return (
                "is a network on frozen features, which Hugging Face has no class for; only models "
                "that are fine-tuned as a whole can be written so"
            )
        if model.config["backbone"]["saved"]:
            return (
                "was fine-tuned from an exported module, whose weights have no names of Hugging "
                "Face's; fine-tune the run or checkpoint that it was made from"
            )
        if model.family.files is None:
            return f"is {model.family.title}, which Hugging Face has no class for"
        return why_only_module(model)

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        files = model.family.files
        if isinstance(model, Pretrained):
            tokenizer = None if model.vocabulary is None else model.tokenizer
            network = model.pretrainer or model.encoder
            files.save(network, folder, tokenizer, settings.overwrite)
            return {"checkpoint": folder}
        arguments = model.config["backbone"]["arguments"]
        try:
            files.write_task(folder, model.task_model, arguments, settings.overwrite)
        except ValueError as error:
            raise ValueError(f"{model.path} can't be written for Hugging Face: {error}") from error
        return {"checkpoint": folder}

    def recognises(self, place: Place) -> bool:
        return place.model_type is not None and family_at(place) is not None

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        family = family_at(place)
        loaded = family.files.load(place.path, dtype=dtype)
        loaded.family = family
        return loaded

    def recognises_task(self, place: Place) -> bool:
        try:
            return os.path.isdir(place.path) and _task(place) is not None
        except ValueError:  # no JSON: who loads the folder as something else says so
            return False

    def read_task(self, place: Place) -> Any:
        family, architecture = _task(place)
        found = family.files.read_task(place.folder, architecture)
        found.backbone.family, found.backbone.path = family, place.path
        return found


class SentenceTransformers(HuggingFace):
    """Hugging Face's files with `modules.json` and the pooling."""

    name = "sentence-transformers"
    title = "the files of sentence-transformers"

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and isinstance(model.family.files, EncoderFiles)

    def why_not(self, model: Any) -> str:
        has = model.vocabulary is not None
        return "" if has else "has no vocabulary, which sentence-transformers needs"

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        how, files = model.family.sentence_settings(model), model.family.files
        names, size = (*files.files, *SENTENCE_FILES), model.config["hidden_size"]
        with new_folder(folder, names, settings.overwrite) as made:
            files.save(model.encoder, made, model.tokenizer, max_length=how.max_length)
            write_sentence_settings(made, how, model.sentence_layers, size)
        return {"checkpoint": folder}

    def recognises(self, place: Place) -> bool:
        has_modules = MODULES in place.names and os.path.isdir(place.path)
        return has_modules and super().recognises(_encoder(place))

    def recognises_task(self, place: Place) -> bool:
        return False

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        loaded = super().read(_encoder(place), dtype)
        size, positions = (loaded.config.get(name) for name in ("hidden_size", "max_positions"))
        loaded.sentences, loaded.sentence_layers = read_sentences(
            place.path, size, positions, loaded.lowercase
        )
        return loaded


def _encoder(place: Place) -> Place:
    """Return the place of the encoder's files."""
    return Place.at(transformer_folder(place.path), place.families, place.opened)


def family_at(place: Place) -> Any:
    """Return the family whose model a configuration states, or None."""
    for family in place.families.values():
        if family.files is not None and place.model_type in family.files.model_types:
            return family
    return None


def _task(place: Place) -> tuple[Any, str] | None:
    """Return the family and the class of transformers of a fine-tuned model, or None."""
    if "architectures" not in place.config:
        return None
    for family in place.families.values():
        if family.files is not None:
            known = family.files.task_heads
            architecture = architecture_of(place.config, known)
            if architecture is not None:
                return family, architecture
    return None
