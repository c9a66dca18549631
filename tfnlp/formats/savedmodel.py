"""SavedModels: a class for each kind of module that tfnlp writes, and one for those of others.

What a module is stands in its `assets.extra/tfnlp.json`, see `tfnlp.hub.saved_kind`. Those whose
network is also written as a graph of ids are in `graphed`.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfnlp import hub
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.data.rows import is_text, plain, rows_of
from tfnlp.data.texts import texts_of
from tfnlp.formats.format import Format, Place
from tfnlp.hub.loading.checks import is_saved_model
from tfnlp.hub.loading.saved_model import load_module
from tfnlp.hub.loading.traces import only_input, traces_of
from tfnlp.hub.modules.fill import FillModule
from tfnlp.hub.modules.sentences import SearchModule
from tfnlp.hub.saving.save import save_module
from tfnlp.settings import formats as settings_of


class Module:
    """A SavedModel that is called and not trained on.

    Args:
        path: Folder, archive or address of a SavedModel.
        kind: What it is, see `tfnlp.hub.saved_kind`; None if that is not known.

    Attributes:
        path, kind: As given.
        module: What `tf.saved_model.load` returns.
    """

    title = "an exported module"

    def __init__(self, path: str | os.PathLike[str], kind: str | None = None) -> None:
        self.path, self.kind = os.fspath(path), kind
        self.module = load_module(path)

    def __repr__(self) -> str:
        return f"Module({self.path!r})"

    def export(self, directory: str | os.PathLike[str], **settings: Any) -> None:
        """Raise ValueError: a module is written of the model that it was made from."""
        raise ValueError(
            f"{self.path} is an exported module: it can be called; give the run or checkpoint that "
            "it was made from"
        )

    def __call__(self, inputs: Any = None, **named: Any) -> Any:
        """Call the module; what is no tensor becomes one, and a string is one text.

        Args:
            inputs: Its one argument: a tensor, numbers or texts in anything that `tfnlp.pretrain`
                takes texts in; or the named ones, in a dict or the columns of a table.
            named: The named ones in place of it, such as `text=["a sentence"]`.

        Raises:
            ValueError: if the module takes something else; `tfnlp.inspect` says what.
        """
        signatures = self.module.signatures
        if not callable(self.module) and "serving_default" not in signatures:
            raise ValueError(f"SavedModel {self.path} can't be called and has no serving_default")
        function = self.module if callable(self.module) else signatures["serving_default"]
        given = _tensors(named) if inputs is None else self._given(function, inputs)
        try:
            if function is not self.module and isinstance(given, dict):
                return function(**given)
            return function(given)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"SavedModel {self.path} does not take these inputs; "
                f"print(*tfnlp.inspect({self.path!r})) shows what it takes"
            ) from error

    def _given(self, function: Callable, inputs: Any) -> Any:
        """Return inputs as tensors, in the structure that the module takes."""
        traces = traces_of(function)
        only = only_input(traces, signature=function is not self.module)
        columns = inputs if isinstance(inputs, Mapping) else None
        if columns is None:
            inputs = _values(inputs, "inputs")
            if isinstance(inputs, list) and isinstance(inputs[0], dict):
                columns = {name: [row.get(name) for row in inputs] for name in inputs[0]}
        if columns is not None:
            named = [t.inputs for t in traces if isinstance(t.inputs, dict)]
            fitting = [names for names in named if names.keys() <= columns.keys()]
            one = only or any(hasattr(trace.inputs, "dtype") for trace in traces)
            if fitting or not one:
                names = max(fitting, key=len, default=columns)
                return _tensors({name: columns[name] for name in names})
            inputs = texts_of(columns, "inputs")
        tensor = tf.convert_to_tensor(inputs)
        return tensor if only is None else {only: tensor}


def _tensors(columns: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    return {name: tf.convert_to_tensor(_values(x, name)) for name, x in columns.items()}


def _values(value: Any, argument: str) -> Any:
    """Return a list of what a container holds; tensors, arrays and numbers as they are."""
    if is_text(value):
        return [plain(value)]
    if isinstance(value, tf.Tensor | np.ndarray) or np.isscalar(value):
        return value
    return [row for _, row in rows_of(value, argument)]


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


class OneModule(SavedModel, abc.ABC):
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

    def recognises(self, place: Place) -> bool:
        return is_saved_model(place.path)

    def read(self, place: Place, dtype: str | None = None) -> Module:
        return Module(place.path, hub.saved_kind(place.path))
