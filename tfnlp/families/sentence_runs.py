"""Runs of training sentence vectors: an encoder, and how its tokens become a vector.

`config.json` of such a run has the section "sentences" beside those of a pretraining run.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfnlp.families.adaptation import adaptation_of
from tfnlp.families.checked import check_size, count_weights, section, text_flag
from tfnlp.families.preparation import kept_vocabulary
from tfnlp.families.sentences import embedded

if TYPE_CHECKING:
    import keras

    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.families.family import Family

SECTION = "sentences"


@dataclasses.dataclass(frozen=True)
class SentenceRun:
    """The section "sentences" of a run's `config.json`."""

    pooling: str = "mean"  # see `tfnlp.layers.SentencePooling`
    max_length: int = 128  # of a text in tokens
    texts: int = 2  # of an example
    classes: int = 0  # of pairs, of the loss "softmax"; 0: none


def is_sentence_run(run: dict[str, Any]) -> bool:
    """Return whether a run's config is of this kind."""
    return SECTION in run


def trainable_encoder(loaded: Pretrained, dropout: float, dtype: str | None) -> tuple[Any, dict]:
    """Return a copy of the encoder to train, and the arguments that make it again.

    It has no pooler, on which sentence vectors do not depend.
    """
    from tfnlp.models import encoder_for_tasks

    family = loaded.family
    if loaded.saved or family.fitting is None or family.fitting.fine_tuned is None:
        what = "an exported module" if loaded.saved else family.title
        raise ValueError(
            f"{loaded.path} is {what}; sentence vectors are trained from a run or checkpoint of an "
            "encoder such as BERT, or of a GPT"
        )
    build, arguments = family.encoder_function(), dict(loaded.config)
    if "pooler" in inspect.signature(build).parameters:
        arguments["pooler"] = False
    rates = {"dropout": dropout, "attention_dropout": dropout}
    return encoder_for_tasks(build, loaded.encoder, arguments, **rates, dtype=dtype), arguments


def siamese_of(encoder: keras.Model, settings: SentenceRun) -> keras.Model:
    """Return the network that a run trains."""
    from tfnlp.models import siamese

    return siamese(encoder, settings.texts, settings.classes or None, settings.pooling)


def vectors_of_texts(loaded: Pretrained, texts: Sequence[str]) -> dict[str, Any]:
    """Return the vector of each distinct text, float32 `[D]`."""
    distinct = list(dict.fromkeys(texts))
    vectors = embedded(loaded.family.sentence_function(loaded, {}), distinct)
    return dict(zip(distinct, vectors, strict=True))


def restored(path: str, run: dict[str, Any], family: Family, dtype: str | None) -> Pretrained:
    """Return the model of a run, with the weights of its best checkpoint."""
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.checkpoints.sentence_transformers import SentenceSettings
    from tfnlp.training.run import restore_weights

    function, (_, left_out) = family.encoder_function(), family.sections["arguments"]
    arguments = section(path, run, "arguments", function, left_out)
    settings = SentenceRun(**section(path, run, SECTION, SentenceRun, ()))

    check_size(path, count_weights(path, function, arguments))
    lowercase = text_flag(path, run, "lowercase") if "text" in run else None
    encoder, adaptation = function(**arguments, dtype=dtype), adaptation_of(run)
    adaptation.apply(encoder)
    _, history = restore_weights(path, siamese_of(encoder, settings))
    adaptation.finish(encoder)
    return Pretrained(
        encoder,
        None,
        arguments,
        make_tokenizer=lambda: family.fitting.restore_tokenizer(path, lowercase),
        vocabulary=kept_vocabulary(path),
        lowercase=lowercase,
        history=history,
        sentences=SentenceSettings(settings.pooling, True, settings.max_length),
    )
