"""Runs of training sentence vectors: an encoder, and how its tokens become a vector.

`config.json` of such a run has the section "sentences" beside those of a pretraining run.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import keras

from tfnlp.checkpoints import Pretrained
from tfnlp.checkpoints.sentence_transformers import SentenceSettings, sentence_layers
from tfnlp.families.checked import check_size, count_weights, section, text_flag
from tfnlp.families.family import Family
from tfnlp.families.fitting import Tunable, adaptation_of
from tfnlp.families.vocabularies import kept_pieces
from tfnlp.models import encoder_for_tasks, siamese
from tfnlp.training.run import restore_weights

SECTION = "sentences"
LEFT_OUT = ("layer", "refused")  # of the settings: always the last layer, and nothing


@dataclasses.dataclass(frozen=True)
class SentenceRun(SentenceSettings):
    """The section "sentences" of a run's `config.json`."""

    texts: int = 2  # of an example
    classes: int = 0  # of pairs, of the loss "softmax"; 0: none

    @property
    def settings(self) -> SentenceSettings:
        """How the trained model makes a vector."""
        names = [field.name for field in dataclasses.fields(SentenceSettings)]
        return SentenceSettings(**{name: getattr(self, name) for name in names})

    def section(self) -> dict[str, Any]:
        """Return the section."""
        found = dataclasses.asdict(self)
        return {name: value for name, value in found.items() if name not in LEFT_OUT}


def trainable_encoder(loaded: Pretrained, dropout: float, dtype: str | None) -> tuple[Any, dict]:
    """Return a copy of the encoder to train, and the arguments that make it again.

    It has no pooler, on which sentence vectors do not depend.
    """
    family = loaded.family
    if loaded.saved or not (isinstance(family, Tunable) and family.trains):
        what = "an exported module" if loaded.saved else family.title
        raise ValueError(
            f"{loaded.path} is {what}; sentence vectors are trained from a run or checkpoint of an "
            "encoder such as BERT, or of a GPT"
        )
    build, arguments = family.encoder, dict(loaded.config)
    if "pooler" in inspect.signature(build).parameters:
        arguments["pooler"] = False
    rates = {"dropout": dropout, "attention_dropout": dropout}
    return encoder_for_tasks(build, loaded.encoder, arguments, **rates, dtype=dtype), arguments


def siamese_of(
    encoder: keras.Model, run: SentenceRun, layers: Sequence[keras.layers.Layer], skip: int = 0
) -> keras.Model:
    """Return the network that a run trains.

    `layers` are those after the pooling, `skip` how many tokens of a prompt are not pooled.
    """
    return siamese(encoder, run.texts, run.classes or None, run.pooling, layers, skip)


def restored(path: str, run: dict[str, Any], family: Family, dtype: str | None) -> Pretrained:
    """Return the model of a run, with the weights of its best checkpoint."""
    function, (_, left_out) = family.encoder, family.sections()["arguments"]
    arguments = section(path, run, "arguments", function, left_out)
    stated = SentenceRun(**section(path, run, SECTION, SentenceRun, LEFT_OUT))

    def build(encoder: keras.Model) -> tuple[keras.Model, list[keras.layers.Layer]]:
        width = encoder.output["sequence_output"].shape[-1]
        layers = sentence_layers(stated, width)
        return siamese_of(encoder, stated, layers), layers

    check_size(path, count_weights(path, lambda **sizes: build(function(**sizes))[0], arguments))
    lowercase = text_flag(path, run, "lowercase") if "text" in run else None
    encoder, adaptation = function(**arguments, dtype=dtype), adaptation_of(run)
    adaptation.apply(encoder)
    network, layers = build(encoder)
    _, history = restore_weights(path, network)
    adaptation.finish(encoder)
    return Pretrained(
        encoder,
        None,
        arguments,
        make_tokenizer=lambda: family.restore_tokenizer(path, lowercase),
        vocabulary=kept_pieces(path),
        lowercase=lowercase,
        history=history,
        sentences=stated.settings,
        sentence_layers=layers,
    )
