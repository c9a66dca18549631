"""Adapters of Hugging Face's PEFT (LoRA): low-rank updates of a model that is elsewhere."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.heads import task_config
from tfnlp.checkpoints.peft import (
    base_of,
    is_adapter,
    is_base,
    is_task_adapter,
    save_adapter,
    write_merged,
)
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.formats.format import Format, Place
from tfnlp.formats.graphed import why_only_module
from tfnlp.formats.huggingface import HuggingFace, family_at
from tfnlp.settings.formats import PeftSettings


class Peft(Format):
    """`adapter_config.json` and `adapter_model.safetensors`, and what tfnlp knows of the task."""

    name = "peft"
    title = PeftSettings.title
    settings = PeftSettings

    def is_for(self, model: Any) -> bool:
        return hasattr(model, "task_model")

    def why_not(self, model: Any) -> str:
        if model.low_rank is None:
            return (
                "has no adapters: it was not trained with `lora`; `format` huggingface writes the "
                "whole model"
            )
        if not isinstance(model.family.files, EncoderFiles):
            return (
                f"is {model.family.title} with tokens of its own around texts, which PEFT's "
                "adapters do not hold; `format` huggingface writes the whole model"
            )
        return why_only_module(model)

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        base = settings.base or (model.results or {}).get("base")
        if base is None:
            raise ValueError(f"{model.path} does not say which model it was made from; give `base`")
        if not is_base(base):
            raise ValueError(
                f"{base} is no checkpoint of Hugging Face, and PEFT reads no other: write the "
                f"model that {model.path} was made from with `format` huggingface, and give its "
                "folder as `base`"
            )
        apart = model.with_adapters()
        arguments = apart.config["backbone"]["arguments"]
        parts = model.family.files.class_parts(apart.task_model, arguments)
        save_adapter(
            folder,
            apart.task_model.model,
            parts,
            base,
            model.low_rank,
            task_config(apart.task_model.task),
            settings.overwrite,
        )
        return {"adapters": folder}

    def recognises(self, place: Place) -> bool:
        return is_adapter(place.path)

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        with _merged(place) as whole:
            loaded = _HUGGINGFACE.read(whole, dtype)
            _keep_tokenizer(loaded)
        return loaded

    def recognises_task(self, place: Place) -> bool:
        return is_adapter(place.path) and is_task_adapter(place.path)

    def read_task(self, place: Place) -> Any:
        with _merged(place) as whole:
            found = _HUGGINGFACE.read_task(whole)
            _keep_tokenizer(found.backbone)
        found.backbone.path = place.path
        return found


_HUGGINGFACE = HuggingFace()


@contextlib.contextmanager
def _merged(place: Place) -> Iterator[Place]:
    """Yield the checkpoint that adapters and their model make together, in a temporary folder."""
    base = base_of(place.path)
    with tempfile.TemporaryDirectory(prefix="tfnlp_merged_") as directory:
        try:
            with place.opened(base) as found:
                family = family_at(Place.at(found.folder, place.families, place.opened))
                if family is None:
                    raise ValueError(
                        f"{place.path} holds adapters of {base}, whose config.json has no "
                        "model_type that tfnlp reads"
                    )
                write_merged(place.path, found.folder, directory, family.files)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{place.path} holds adapters of {base}: {error}") from error
        try:
            yield Place.at(directory, place.families, place.opened)
        except ValueError as error:  # of what the user has
            raise ValueError(str(error).replace(directory, place.path)) from error


def _keep_tokenizer(loaded: Pretrained) -> None:
    """Make the tokenizer now: its files are deleted with the folder."""
    tokenizer = loaded.tokenizer
    loaded.make_tokenizer = lambda: tokenizer
