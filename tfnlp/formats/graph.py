"""Graphs of ids for other runtimes, without the SavedModel that they usually stand beside."""

from __future__ import annotations

from typing import Any

from tfnlp.formats.format import Format
from tfnlp.formats.savedmodel import Encoder, GraphedModel, LanguageModel, Task
from tfnlp.hub.saving.graphs import Graphs
from tfnlp.settings.formats import StoredSettings

_KINDS: tuple[GraphedModel, ...] = (Encoder(), LanguageModel(), Task())


class Graph(Format):
    """A file, or a folder with it, the vocabulary, the labels and an example of how to call it."""

    settings = StoredSettings
    in_tensorflow = True

    def is_for(self, model: Any) -> bool:
        return _kind(model) is not None

    def why_not(self, model: Any) -> str:
        return _kind(model).why_no_graph(model)

    def write(self, model: Any, folder: str, settings: Any) -> dict[str, str]:
        kind = _kind(model)
        graph = kind.graph(model, kind.settings(weights=settings.weights))
        graphs = Graphs(**{self.name: folder}, beside=graph.beside)
        graphs.check(overwrite=settings.overwrite)
        with graph.written(graphs, settings):
            return graphs.paths()


def _kind(model: Any) -> GraphedModel | None:
    """Return the kind of module whose network the graph is of."""
    return next((kind for kind in _KINDS if kind.is_for(model)), None)
