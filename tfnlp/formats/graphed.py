"""Modules whose network is also written as a graph of ids, and these graphs."""

from __future__ import annotations

import abc
import os
from typing import Any, ClassVar

import tensorflow as tf

from tfnlp import hub
from tfnlp.checkpoints.encoder_files import EncoderFiles
from tfnlp.checkpoints.gpt_tasks import GPTFiles
from tfnlp.checkpoints.pretrained import Pretrained
from tfnlp.formats.format import Format, Place
from tfnlp.formats.savedmodel import SavedModel
from tfnlp.hub.modules import bert, gpt
from tfnlp.hub.modules.fine_tuned import ids_function
from tfnlp.hub.modules.frozen_features import EncoderFeatures
from tfnlp.hub.modules.sentences import SentenceModule
from tfnlp.hub.saving.graphs import Graphs, write_example, write_task_files
from tfnlp.hub.saving.keras_module import input_spec, serving_of
from tfnlp.hub.saving.save import save_module
from tfnlp.models import electra_discriminator
from tfnlp.settings import formats as settings_of
from tfnlp.text.task_readers import PromptReader

Places = dict[str, str | None]  # of "litert" and "onnx"
_LENGTH = 128  # to which pairs pack texts


class GraphedModel(SavedModel, abc.ABC):
    """A kind of module whose network is also written as a graph of ids.

    Attributes:
        parts: Folders of the modules.
    """

    parts: ClassVar[tuple[str, ...]] = ("",)

    @abc.abstractmethod
    def graphs(self, model: Any, settings: Any, places: Places) -> Graphs:
        """Return the network of a model that `takes` has accepted as graphs at these places."""

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
        places = {"litert": settings.litert, "onnx": settings.onnx}
        graphs = self.graphs(model, settings, places)
        for part in self.parts:
            graphs.check(os.path.join(folder, part), settings.overwrite)
        with graphs.written(settings.weights, settings.overwrite):
            paths = self.save(model, folder, settings)
        return {**paths, **graphs.paths()}

    @abc.abstractmethod
    def save(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        """Write the modules alone."""


class Pair(GraphedModel):
    """A network of ids and its preprocessor, two modules as TF-Hub's.

    Attributes:
        files: The class of the files that its families have.
        family: That of modules of strangers, which state none.
        served: Outputs of the network.
    """

    pretrained = True
    files: ClassVar[type[EncoderFiles] | type[GPTFiles]]
    family: ClassVar[str]
    served: ClassVar[tuple[str, ...]]

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and isinstance(model.family.files, self.files)

    def network(self, model: Pretrained) -> Any:
        """Return the Keras model that the graph of ids is of."""
        return model.encoder

    def graphs(self, model: Any, settings: Any, places: Places) -> Graphs:
        reader, length = model.family.sentence_reader(model), _pair_length(model, settings)
        return _of_tokens(model, self.network(model), self.served, reader, length, places)

    def save(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        paths = self.export(
            folder,
            model,
            settings,
            seq_length=_pair_length(model, settings),
            overwrite=settings.overwrite,
            weights=settings.weights,
            family=model.family.name,
        )
        if isinstance(paths, str):
            return {"module": paths}
        return dict(zip(self.parts, paths, strict=True))

    @abc.abstractmethod
    def export(self, folder: str, model: Any, settings: Any, **given: Any) -> Any:
        """Write the modules, with what both kinds of pairs are given; return their paths."""

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

    def export(self, folder: str, model: Any, settings: Any, **given: Any) -> Any:
        heads = model.pretrainer
        if heads is not None and "discriminator_logits" in heads.output:  # without its generator
            heads = electra_discriminator(model.encoder, heads.get_layer("discriminator_head"))
        parts = (model.encoder, model.tokenizer, heads)
        return hub.export_bert(folder, *parts, combined=settings.combined, **given)


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

    def export(self, folder: str, model: Any, settings: Any, **given: Any) -> Any:
        return hub.export_gpt(folder, model.pretrainer, model.tokenizer, **given)


class Sentences(GraphedModel):
    """A module of strings to one vector each."""

    settings = settings_of.SentencesModuleSettings
    option = "sentences"
    kind = SentenceModule.kind

    def is_for(self, model: Any) -> bool:
        return isinstance(model, Pretrained) and model.family.files is not None

    def graphs(self, model: Any, settings: Any, places: Places) -> Graphs:
        network, reader, length = _sentence_network(model, settings)
        if isinstance(reader, PromptReader):
            raise ValueError(
                f"{model.path}: a graph of ids has no prompt and does not lower-case; give an "
                "empty `prompt` and put it before texts yourself, or leave `onnx` and `litert` out"
            )
        outputs = ("sentence_embedding",)
        return _of_tokens(model, network, outputs, reader, length, places)

    def save(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        network = _sentence_network(model, settings)
        path = save_module(
            lambda stored: SentenceModule(*network, stored),
            folder,
            settings.overwrite,
            settings.weights,
            network[:1],
            family=model.family.name,
        )
        return {"module": path}


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

    def graphs(self, model: Any, settings: Any, places: Places) -> Graphs:
        task_model, files = model.task_model, model.family.files

        def write_tokenizer(folder: str) -> None:
            arguments = model.config["backbone"]["arguments"] or {}
            files.write_tokenizer(folder, task_model.reader, arguments)

        def beside(folder: str, file: str) -> None:
            write_task_files(folder, file, task_model, files and write_tokenizer)

        def function_of(fixed: bool) -> Any:
            return ids_function(task_model, task_model.task.max_length if fixed else None)

        return Graphs(places, function_of, model.path, beside)

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


def _given_length(model: Pretrained, settings: Any) -> int | None:
    """Return the length that is asked for, which the model must be able to read."""
    length, positions = settings.seq_length, model.config.get("max_positions")
    if length is not None and positions and length > positions:
        raise ValueError(
            f"`seq_length` {length} is longer than the {positions} positions of {model.path}"
        )
    return length


def _pair_length(model: Pretrained, settings: Any) -> int:
    return _given_length(model, settings) or min(_LENGTH, model.config["max_positions"])


def _sentence_network(model: Any, settings: Any) -> tuple[Any, Any, int]:
    given = {"pooling": settings.pooling, "prompt": settings.prompt}
    given["max_length"] = _given_length(model, settings)
    return model.family.sentence_network(model, given)


def _of_tokens(
    model: Pretrained,
    network: Any,
    outputs: tuple[str, ...],
    reader: Any,
    length: int,
    places: Places,
) -> Graphs:
    """Return the graphs of a network that gives vectors of tokens or of texts."""

    def beside(folder: str, file: str) -> None:
        model.family.files.write_tokenizer(folder, reader, model.config)
        write_example(folder, file, length)

    def function_of(fixed: bool) -> Any:
        spec = input_spec(network)
        if fixed:
            spec = {name: tf.TensorSpec([None, length], "int32", name) for name in spec}
        return serving_of(network, outputs, spec)

    return Graphs(places, function_of, str(model.path), beside)


class Graph(Format):
    """The graph alone: a file, or a folder with vocabulary, labels and an example of a call."""

    settings = settings_of.StoredSettings
    in_tensorflow = True

    def is_for(self, model: Any) -> bool:
        return _kind(model) is not None

    def why_not(self, model: Any) -> str:
        return _kind(model).why_no_graph(model)

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        kind = _kind(model)
        given = kind.settings(weights=settings.weights)
        graphs = kind.graphs(model, given, {self.name: folder})
        graphs.check(overwrite=settings.overwrite)
        with graphs.written(settings.weights, settings.overwrite):
            return graphs.paths()


class LiteRT(Graph):
    """A `.tflite` file of texts of one length; see `tfnlp.hub.saving.litert`."""

    name = "litert"
    title = "a graph for LiteRT"


class Onnx(Graph):
    """A `.onnx` file of any length of texts; see `tfnlp.hub.saving.onnx`."""

    name = "onnx"
    title = "a graph for ONNX Runtime"


def _kind(model: Any) -> GraphedModel | None:
    """Return the kind of module whose network the graph is of."""
    return next((kind for kind in _KINDS if kind.is_for(model)), None)


_KINDS: tuple[GraphedModel, ...] = (Encoder(), LanguageModel(), Task())
