"""The table of formats, and the loops that write a model and find who reads it."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
from collections.abc import Mapping
from typing import Any

from tfnlp.cards import Card, card_of_export
from tfnlp.checkpoints.word_vectors import FORMATS as WORD_VECTORS
from tfnlp.files import near_names
from tfnlp.formats.format import ANOTHER_KIND, Format, Place
from tfnlp.formats.graphed import Encoder, LanguageModel, LiteRT, Onnx, Sentences, Task
from tfnlp.formats.huggingface import HuggingFace, SentenceTransformers
from tfnlp.formats.others import Bilm, Google, KerasHub, OpenAI, WordVectorsFile
from tfnlp.formats.peft import Peft
from tfnlp.formats.savedmodel import Elmo, Fill, OtherModule, Search, Translation, WordVectors
from tfnlp.in_tensorflow import in_tensorflow, is_elsewhere, models_of
from tfnlp.published import WELL_KNOWN

EXPECTED = (
    "a run, an exported module, word vectors, or a model's files of Hugging Face, Google, OpenAI, "
    "bilm-tf, AllenNLP or keras-hub"
)
# A place is read by the first that recognises it. The name of the first is the default of `format`.
FORMATS: tuple[Format, ...] = (
    Encoder(), LanguageModel(), Fill(), Sentences(), Task(), Elmo(), WordVectors(), Translation(),
    Search(), OtherModule(), KerasHub(), Peft(), SentenceTransformers(),
    *map(WordVectorsFile, WORD_VECTORS), Bilm(), OpenAI(), HuggingFace(), Google(), Onnx(),
    LiteRT(),
)  # fmt: skip


def export(
    model: Any, directory: str | os.PathLike[str], given: Mapping[str, Any], card: Card | None
) -> dict[str, str]:
    """Write a model in one of the formats.

    Args:
        model: A `Pretrained`, a `TaskRun` or an `Index`.
        directory: The folder, or the file, to write.
        given: `format`, the name, and the settings of the format; None and False are none.
        card: The model card of what is written.

    Returns:
        what was written to its path.

    Raises:
        ValueError: for a format or a setting that the model does not have.
        OSError: if something can't be written, or is there already without `overwrite`.
    """
    given = {name: x for name, x in given.items() if x is not None and x is not False}
    name = given.pop("format", FORMATS[0].name)
    chosen = _chosen(model, name, given)
    settings = _settings(chosen, model, given)
    directory = os.fspath(directory)
    if not directory:
        raise ValueError("`directory` is empty; give a path, . for the current folder")
    if chosen.in_tensorflow and is_elsewhere():
        arguments = (model.path, models_of(model), "export", directory)
        return in_tensorflow(*arguments, format=name, **given)
    with contextlib.nullcontext() if card is None else card_of_export(card):
        return chosen.write(model, os.path.expanduser(directory), settings)


def _chosen(model: Any, name: str, given: Mapping[str, Any]) -> Format:
    """Return the format of a name that takes a model and, where there are several, the settings."""
    why = {one: one.takes(model) for one in FORMATS}
    named = [one for one in FORMATS if one.name == name]
    for one in named:
        if one.option in given and why[one] is not ANOTHER_KIND:
            if why[one] is not None:
                raise ValueError(f"`{one.option}`: {model.path} {why[one]}")
            return one
    usual = [one for one in named if not one.option]
    for one in usual:
        if why[one] is None:
            return one
    for one in usual:
        if why[one] is not ANOTHER_KIND:
            raise ValueError(f"`format` {name}: {model.path} {why[one]}")
    others = dict.fromkeys(one.name for one in FORMATS if why[one] is None)
    raise ValueError(
        f"`format` {name} is not for {model.title}; choose {_listed(list(others))}"
        if others
        else f"{model.path} is {model.title}, which is not written in any format"
    )


def _settings(chosen: Format, model: Any, given: Mapping[str, Any]) -> Any:
    """Return the settings of a format; refuse those that only others have."""
    for name in given:
        if name in _fields(chosen):
            continue
        owners = [one for one in FORMATS if name in _fields(one)]
        alike = [one for one in owners if one.takes(model) is None]
        if owners:
            titles = dict.fromkeys(one.title for one in alike or owners)
            raise ValueError(
                f"`{name}` is for {_listed(list(titles))}, not for {chosen.title}; "
                f"{model.path} is {model.title}"
            )
    return chosen.settings.make(**given)


def _fields(one: Format) -> set[str]:
    return {field.name for field in dataclasses.fields(one.settings)}


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def recognised(place: Place) -> Format | None:
    """Return the format of what is at a place, None if there is none."""
    return next((one for one in FORMATS if one.recognises(place)), None)


def recognised_task(place: Place) -> Format | None:
    """Return the format of a fine-tuned model at a place, None if there is none."""
    return next((one for one in FORMATS if one.recognises_task(place)), None)


def unknown(place: Place) -> Exception:
    """Return the error of a place where no format recognises anything."""
    if os.path.exists(place.path):
        return ValueError(f"{place.path} {described(place)}; expected {EXPECTED}")
    named = {one.split("/")[1]: one for one in WELL_KNOWN}
    known = difflib.get_close_matches(os.path.basename(place.path), named, 1, 0.8)
    near = [*near_names(place.path), *(f"hf://{named[one]}" for one in known)]
    hint = f"did you mean {' or '.join(near)}?" if near else "a published one is hf://org/name"
    return FileNotFoundError(f"{place.path} does not exist here; {hint}")


def described(place: Place) -> str:
    """Return what is at a place that no format recognises."""
    if os.path.isfile(place.path):
        return "is a file of an unknown format"
    if not place.names:
        return "is an empty folder"
    if place.model_type is not None:
        return (
            f"is a Hugging Face model of the type {place.model_type!r}, which tfnlp does not read"
        )
    return f"is a folder of {', '.join(place.names[:5])}{', ...' if len(place.names) > 5 else ''}"
