"""SavedModels: a class for each kind of module that tfnlp writes, and one for those of others.

What a module is stands in its `assets.extra/tfnlp.json`, see `tfnlp.hub.saved_kind`.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import os
from collections.abc import Callable
from typing import Any, ClassVar

from tfnlp import hub
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.family_files import FamilyFiles
from tfnlp.checkpoints.gpt_tasks import GPTFiles
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.formats.format import Format, Place
from tfnlp.formats.module import Module
from tfnlp.hub.loading.checks import is_saved_model
from tfnlp.hub.modules import bert, gpt
from tfnlp.hub.modules.fill import FillModule
from tfnlp.hub.modules.frozen_features import EncoderFeatures
from tfnlp.hub.modules.sentences import SearchModule, SentenceModule, export_sentences
from tfnlp.hub.modules.task_files import write_example, write_task_files
from tfnlp.hub.modules.task_graph import ids_function
from tfnlp.hub.saving.graphs import Graphs
from tfnlp.hub.saving.keras_module import serving_ids
from tfnlp.hub.saving.save import save_module
from tfnlp.models import electra_discriminator
from tfnlp.settings import formats as settings_of
from tfnlp.text.task_readers import PromptReader

_LENGTH = 128  # to which pairs pack texts


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
        def make() -> Any:
            return self.module(model, settings)

        family = model.family.name
        return {"module": save_module(make, folder, settings.overwrite, family=family)}


@dataclasses.dataclass(frozen=True)
class IdsGraph:
    """A model as a function of ids, for runtimes that have no strings.

    Attributes:
        function: Of whether lengths are fixed, to the concrete function.
        beside: Of a folder and the name of the graph's file in it: writes the vocabulary, the
            labels and an example of how to call it.
        title: The model, in messages.
    """

    function: Callable[[bool], Any]
    beside: Callable[[str, str], None]
    title: str

    def written(self, graphs: Graphs, settings: Any) -> contextlib.AbstractContextManager[None]:
        """Write graphs when the block ends without an error, see `Graphs.written`."""
        return graphs.written(self.function, self.title, settings.weights, settings.overwrite)


class GraphedModel(SavedModel):
    """A kind of module whose network is also written as a graph of ids.

    Attributes:
        parts: Folders of the modules.
    """

    parts: ClassVar[tuple[str, ...]] = ("",)

    @abc.abstractmethod
    def graph(self, model: Any, settings: Any) -> IdsGraph:
        """Return the network of a model that `takes` has accepted."""

    def why_no_graph(self, model: Any) -> str:
        """Return why a model has no graph of ids, as `why_not` does."""
        return self.why_not(model)

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        if settings.litert is None and settings.onnx is None:
            return self.save(model, folder, settings)
        why = self.why_no_graph(model)
        if why:
            name = "onnx" if settings.litert is None else "litert"
            raise ValueError(f"`{name}`: {model.path} {why}")
        graph = self.graph(model, settings)
        graphs = Graphs(settings.litert, settings.onnx, graph.beside)
        for part in self.parts:
            graphs.check(os.path.join(folder, part), settings.overwrite)
        with graph.written(graphs, settings):
            paths = self.save(model, folder, settings)
        return {**paths, **graphs.paths()}

    @abc.abstractmethod
    def save(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        """Write the modules alone."""


def _graph_of_tokens(
    loaded: Pretrained, network: Any, outputs: tuple[str, ...], reader: Any, length: int
) -> IdsGraph:
    """Return the graph of a network that gives vectors of tokens or of texts."""

    def beside(folder: str, file: str) -> None:
        loaded.family.files.write_tokenizer(folder, reader, loaded.config)
        write_example(folder, file, length)

    def function(fixed: bool) -> Any:
        return serving_ids(network, outputs, length if fixed else None)

    return IdsGraph(function, beside, str(loaded.path))


class Pair(GraphedModel):
    """A network of ids and its preprocessor, two modules as TF-Hub's.

    Attributes:
        files: The class of the files that its families have.
        family: That of modules of strangers, which state none.
        served: Outputs of the network.
    """

    pretrained = True
    files: ClassVar[type[FamilyFiles]]
    family: ClassVar[str]
    served: ClassVar[tuple[str, ...]]

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and isinstance(model.family.files, self.files)

    def network(self, model: Pretrained) -> Any:
        """Return the Keras model that the graph of ids is of."""
        return model.encoder

    def length(self, model: Pretrained, settings: Any) -> int:
        """Return the length to which texts are packed."""
        return _given_length(model, settings) or min(_LENGTH, model.config["max_positions"])

    def graph(self, model: Any, settings: Any) -> IdsGraph:
        reader, length = model.family.sentence_reader(model), self.length(model, settings)
        return _graph_of_tokens(model, self.network(model), self.served, reader, length)

    def read(self, place: Place, dtype: str | None = None) -> Pretrained:
        path, family = place.path, place.families.get(hub.saved_family(place.path))
        if family is None or not isinstance(family.files, self.files):
            family = place.families[self.family]
        return Pretrained(
            hub.saved_encoder(path),
            None,
            {},
            make_tokenizer=lambda: hub.saved_tokenizer(path),
            family=family,
            saved=True,
        )


class Encoder(Pair):
    """The modules `encoder` and `preprocessor` of a BERT, or another encoder."""

    settings = settings_of.EncoderPairSettings
    kind = bert.KIND
    parts = ("encoder", "preprocessor")
    files = EncoderFiles
    family = "bert"
    served = bert.SERVED

    def save(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        paths = hub.export_bert(
            folder,
            model.encoder,
            model.tokenizer,
            _served_heads(model),
            seq_length=self.length(model, settings),
            overwrite=settings.overwrite,
            weights=settings.weights,
            family=model.family.name,
            combined=settings.combined,
        )
        if settings.combined:
            return {"module": paths}
        return dict(zip(self.parts, paths, strict=True))


def _given_length(model: Pretrained, settings: Any) -> int | None:
    """Return the length that is asked for, which the model must be able to read."""
    length, positions = settings.seq_length, model.config.get("max_positions")
    if length is not None and positions and length > positions:
        raise ValueError(
            f"`seq_length` {length} is longer than the {positions} positions of {model.path}"
        )
    return length


def _served_heads(loaded: Pretrained) -> Any:
    """Return the pretrainer whose heads a module has: of an ELECTRA the discriminator alone."""
    outputs = {} if loaded.pretrainer is None else loaded.pretrainer.output
    if "discriminator_logits" not in outputs:
        return loaded.pretrainer
    head = loaded.pretrainer.get_layer("discriminator_head")
    return electra_discriminator(loaded.encoder, head)


class LanguageModel(Pair):
    """The modules `model` and `preprocessor` of a GPT."""

    settings = settings_of.GPTPairSettings
    kind = hub.GPTModule.kind
    parts = ("model", "preprocessor")
    files = GPTFiles
    family = "gpt"
    served = gpt.SERVED

    def why_not(self, model: Any) -> str:
        if model.pretrainer is None:
            return "is trained for vectors of sentences; export `sentences`"
        return ""

    def network(self, model: Pretrained) -> Any:
        return model.pretrainer

    def save(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        paths = hub.export_gpt(
            folder,
            model.pretrainer,
            model.tokenizer,
            seq_length=self.length(model, settings),
            overwrite=settings.overwrite,
            weights=settings.weights,
            family=model.family.name,
        )
        return dict(zip(self.parts, paths, strict=True))


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


class Sentences(GraphedModel):
    """A module of strings to one vector each."""

    settings = settings_of.SentencesModuleSettings
    option = "sentences"
    kind = SentenceModule.kind

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and model.family.files is not None

    def graph(self, model: Any, settings: Any) -> IdsGraph:
        network, reader, length = self._network(model, settings)
        if isinstance(reader, PromptReader):
            raise ValueError(
                f"{model.path}: a graph of ids has no prompt and does not lower-case; give an "
                "empty `prompt` and put it before texts yourself, or leave `onnx` and `litert` out"
            )
        return _graph_of_tokens(model, network, ("sentence_embedding",), reader, length)

    def save(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        arguments = (*self._network(model, settings), settings.overwrite, settings.weights)
        return {"module": export_sentences(folder, *arguments, family=model.family.name)}

    def _network(self, model: Any, settings: Any) -> tuple[Any, Any, int]:
        given = {"pooling": settings.pooling, "prompt": settings.prompt}
        given["max_length"] = _given_length(model, settings)
        return model.family.sentence_network(model, given)


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


class Task(GraphedModel):
    """A module of strings to labels, scores, tags or answers."""

    settings = settings_of.TaskModuleSettings
    kind = hub.FineTunedModule.kind

    def is_for(self, model: Any) -> bool:
        return hasattr(model, "task_model")

    def why_no_graph(self, model: Any) -> str:
        features = model.task_model.features
        if features is not None and not isinstance(features, EncoderFeatures):
            return (
                "is a network on the layers of an ELMo, which reads the characters of words: no "
                "graph of ids does that"
            )
        return why_only_module(model)

    def graph(self, model: Any, settings: Any) -> IdsGraph:
        task_model, files = model.task_model, model.family.files

        def write_tokenizer(folder: str) -> None:
            arguments = model.config["backbone"]["arguments"] or {}
            files.write_tokenizer(folder, task_model.reader, arguments)

        def beside(folder: str, file: str) -> None:
            write_task_files(folder, file, task_model, files and write_tokenizer)

        def function(fixed: bool) -> Any:
            return ids_function(task_model, task_model.task.max_length if fixed else None)

        return IdsGraph(function, beside, model.path)

    def save(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        if settings.keep_adapters:
            if model.low_rank is None:
                raise ValueError(
                    f"`keep_adapters`: {model.path} has no adapters; it was not trained with `lora`"
                )
            model = model.with_adapters()
        arguments = (model.task_model, settings.overwrite, settings.weights, model.family.name)
        path = hub.export_fine_tuned(folder, *arguments, model.dev_examples(settings.examples))
        return {"module": path}


def why_only_module(model: Any) -> str:
    """Return why a fine-tuned model's predictions can't be had from its network alone."""
    only = model.task_model.task.only_module
    return f"has {only}, which only a SavedModel holds" if only else ""


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
