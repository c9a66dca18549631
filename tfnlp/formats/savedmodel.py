"""SavedModels: a class for each kind of module that tfnlp writes, and one for those of others.

What a module is stands in its `assets.extra/tfnlp.json`, see `tfnlp.hub.saved_kind`. Those whose
network is also written as a graph of ids are in `graphed`.
"""

from __future__ import annotations

import abc
import os
from typing import Any, ClassVar

from tfnlp import hub
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.formats.format import Format, Place
from tfnlp.formats.module import Module
from tfnlp.hub.loading.checks import is_saved_model
from tfnlp.hub.modules.fill import FillModule
from tfnlp.hub.modules.sentences import SearchModule
from tfnlp.hub.saving.save import save_module
from tfnlp.settings import formats as settings_of


class SavedModel(Format):
    """A kind of module.

    Attributes:
        kind: What its record says, see `tfnlp.hub.saved_kind`.
    """

    name = "savedmodel"
    in_tensorflow = True
    pretrained = False
    kind: ClassVar[str]

    @property
    def title(self) -> str:
        return self.settings.title

    def recognises(self, place: Place) -> bool:
        return os.path.isdir(place.path) and hub.saved_kind(place.path) == self.kind

    def read(self, place: Place, dtype: str | None = None) -> Any:
        return Module(place.path, self.kind)


class OneModule(SavedModel):
    """A kind of module that is one SavedModel and has no graph of ids."""

    @abc.abstractmethod
    def module(self, model: Any, settings: Any) -> Any:
        """Return the object that is saved, see `tfnlp.hub.modules`."""

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        path = save_module(
            lambda _: self.module(model, settings),
            folder,
            settings.overwrite,
            family=model.family.name,
        )
        return {"module": path}


class Fill(OneModule):
    """A module of strings with masks to the words there."""

    settings = settings_of.FillModuleSettings
    option = "fill"
    kind = FillModule.kind

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and isinstance(model.family.files, EncoderFiles)

    def why_not(self, model: Any) -> str:
        heads = {} if model.pretrainer is None else model.pretrainer.output
        if "mlm_logits" not in heads or "discriminator_logits" in heads:
            return "has no masked-LM head, so that it can't fill masks"
        return ""

    def module(self, model: Any, settings: Any) -> FillModule:
        return FillModule(model.pretrainer, model.tokenizer, settings.top or 5)


class Elmo(OneModule):
    """The module of an ELMo."""

    settings = settings_of.ElmoModuleSettings
    kind = hub.ElmoModule.kind
    pretrained = True
    family = "elmo"

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and model.family.name == self.family

    def module(self, model: Any, settings: Any) -> hub.ElmoModule:
        return hub.ElmoModule(model.encoder, settings.trainable, settings.cache, settings.l2)

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        """Return an exported ELMo, which has no Keras model but gives vectors."""
        return Pretrained(None, None, {}, family=place.families[self.family], saved=True)


class WordVectors(OneModule):
    """A module of texts to their combined word vectors."""

    settings = settings_of.WordVectorsModuleSettings
    kind = hub.WordVectorsModule.kind

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and model.word_vectors is not None

    def module(self, model: Any, settings: Any) -> hub.WordVectorsModule:
        return hub.WordVectorsModule(
            model.word_vectors,
            settings.oov_buckets,
            settings.combiner,
            settings.lowercase,
            not settings.strip_punctuation,
        )


class Translation(OneModule):
    """A module of sentences to translations."""

    settings = settings_of.TranslationModuleSettings
    kind = hub.TranslationModule.kind

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and model.decoder is not None

    def module(self, model: Any, settings: Any) -> hub.TranslationModule:
        arguments = (model.tokenizer, settings.beams, settings.length_penalty)
        return hub.TranslationModule(model.encoder, hub.Translator(model.decoder, *arguments))


class Search(OneModule):
    """A module of strings to the texts of an index that are nearest to them.

    Encoder, vectors and texts are in one, for collections that fit into memory.
    """

    settings = settings_of.SearchModuleSettings
    kind = SearchModule.kind

    def is_for(self, model: Any) -> bool:
        return hasattr(model, "search")

    def why_not(self, model: Any) -> str:
        if model.model.saved or model.family.files is None:
            return (
                f"has the vectors of {model.model.path}, {model.family.title}; a module of an "
                "index is for a run or checkpoint of an encoder such as BERT, or of a GPT"
            )
        return ""

    def module(self, model: Any, settings: Any) -> SearchModule:
        network = model.family.sentence_network(model.model, model.embedding(settings.prompt))
        texts = list(model.texts())
        return SearchModule(*network, model.vectors, texts, min(settings.top, len(texts)))


class OtherModule(SavedModel):
    """Any other SavedModel, which is called and not trained on; `tfnlp.hub.export` writes them."""

    kind = ""

    def is_for(self, model: Any) -> bool:
        return False

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        raise NotImplementedError(type(self).__name__)

    def recognises(self, place: Place) -> bool:
        return is_saved_model(place.path)

    def read(self, place: Place, dtype: str | None = None) -> Module:
        return Module(place.path, hub.saved_kind(place.path))
