"""Search in texts by the vectors of a model.

INDEX/index.json    the model, how it makes vectors, checksums of the other files
INDEX/vectors.npy   float32 [N, D], of norm 1
INDEX/texts.jsonl   the texts, a JSON string a line
INDEX/starts.npy    int64 [N + 1], the byte in texts.jsonl where each line begins
INDEX/graph.faiss   of an approximate index: the graph of faiss
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tfnlp.checksums import check_files, checksums
from tfnlp.data.rows import is_text, texts_of
from tfnlp.extras import needed
from tfnlp.families.recognition import load_pretrained

INDEX, VECTORS, TEXTS, STARTS, GRAPH = (
    "index.json", "vectors.npy", "texts.jsonl", "starts.npy", "graph.faiss",
)  # fmt: skip
_BLOCK = 65_536  # vectors that are compared with queries at a time
_NEIGHBOURS, _BUILD, _SEARCH = 32, 200, 256  # of faiss's graph: HNSW's M and its two ef


def is_index(path: str) -> bool:
    """Return whether a folder is an index."""
    return os.path.isfile(os.path.join(path, INDEX))


class Index:
    """Texts that are found by their meaning.

    Args:
        folder: That `tfnlp embed` has written.
        model: In place of the model that made the vectors, if that is elsewhere now: a path that
            `tfnlp.load` takes, or a `Pretrained`.

    Attributes:
        path: The folder.
        settings: Contents of `index.json`.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if one was changed.
    """

    title = "an index"

    def __init__(self, folder: str | os.PathLike[str], model: Any = None) -> None:
        self.path = os.fspath(folder)
        path = os.path.join(self.path, INDEX)
        try:
            with open(path, encoding="utf-8") as file:
                self.settings = json.load(file)
            self.settings["embed"], self.settings["model"], self.settings["files"]
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error!r}); embed the texts again") from error
        check_files(self.path, self.settings["files"], path, "embed the texts again")
        self._model = model
        self._vectors = np.load(os.path.join(self.path, VECTORS), mmap_mode="r")
        self._starts = np.load(os.path.join(self.path, STARTS), mmap_mode="r")

    def __len__(self) -> int:
        return len(self._vectors)

    def __repr__(self) -> str:
        return f"Index({self.path!r}, {len(self):,} texts)"

    @functools.cached_property
    def model(self) -> Any:
        """The model of the queries' vectors."""
        return load_pretrained(self._model or self.settings["model"])

    def search(self, queries: Any, top: int = 5, exact: bool | None = None) -> list:
        """Return the texts whose vectors have the largest products with those of queries.

        Args:
            queries: A string, or several as in `Pretrained.embed`.
            top: Texts for each.
            exact: Compare all vectors; False: search the graph; None: the graph if there is one.

        Returns:
            of one query a list of dicts, the best first: `text`, `score` (a cosine) and `row`, its
            number in the input; of a list such a list for each.

        Raises:
            ValueError: without a graph, or if the model's vectors have another size.
            ImportError: for a graph without faiss.
        """
        several = texts_of(queries, "queries")
        if top < 1:
            raise ValueError(f"`top` {top} must be 1 or more")
        graph = self.settings.get("approximate", False)
        if exact is False and not graph:
            raise ValueError(f"{self.path} has no graph; embed the texts with `approximate`")
        vectors = self.model.family.embedded(self.model, several, self.settings["embed"])
        if vectors.shape[1] != self._vectors.shape[1]:
            raise ValueError(
                f"the model's vectors have {vectors.shape[1]} numbers, those of {self.path} "
                f"{self._vectors.shape[1]}; give the model that made the index"
            )
        find = self._in_graph if graph and not exact else self._in_all
        scores, rows = find(vectors, min(top, len(self)))
        found = [
            [
                {"text": self.text(row), "score": float(score), "row": int(row)}
                for score, row in zip(*pair, strict=True)
            ]
            for pair in zip(scores, rows, strict=True)
        ]
        return found[0] if is_text(queries) else found

    def text(self, row: int) -> str:
        """Return a text by its number."""
        with open(os.path.join(self.path, TEXTS), "rb") as file:
            file.seek(int(self._starts[row]))
            return json.loads(file.read(int(self._starts[row + 1] - self._starts[row])))

    def texts(self) -> Iterator[str]:
        """Yield all texts."""
        with open(os.path.join(self.path, TEXTS), encoding="utf-8") as file:
            yield from map(json.loads, file)

    def export(
        self,
        directory: str | os.PathLike[str],
        top: int | None = None,
        overwrite: bool = False,
        **settings: Any,
    ) -> dict[str, str]:
        """Write a SavedModel from strings to the texts found: encoder and vectors in one.

        For collections that fit into memory.

        Args:
            directory: The folder to write.
            top: Texts for each query; None: 5.
            overwrite: Replace an earlier export.
            settings: None: an index has no others.

        Returns:
            `{"module": path}`.

        Raises:
            ValueError: for a model without a network of tokens.
            OSError: if it can't be written, or is there already without `overwrite`.
        """
        from tfnlp.formats import export

        given = {"top": top, "overwrite": overwrite, **settings}
        return export(self, directory, given, card=None)

    @property
    def family(self) -> Any:
        """Family of the model."""
        return self.model.family

    @property
    def vectors(self) -> np.ndarray:
        """Of all texts, float32 `[N, D]`."""
        return np.asarray(self._vectors)

    def _in_all(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and rows `[Q, top]`, of equal scores the first rows."""
        best = np.zeros((len(queries), 0), np.float32), np.zeros((len(queries), 0), np.int64)
        for first in range(0, len(self), _BLOCK):
            scores = queries @ np.asarray(self._vectors[first : first + _BLOCK]).T  # [Q, b]
            rows = np.broadcast_to(np.arange(first, first + scores.shape[1]), scores.shape)
            scores, rows = (np.concatenate(p, 1) for p in zip(best, (scores, rows), strict=True))
            order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
            best = np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
        return best

    def _in_graph(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        self._graph.hnsw.efSearch = max(_SEARCH, top)
        return self._graph.search(queries, top)

    @functools.cached_property
    def _graph(self) -> Any:
        return faiss().read_index(os.path.join(self.path, GRAPH))


def write_index(
    folder: str,
    arrays: Iterable[np.ndarray],
    texts: Iterable[str],
    settings: dict[str, Any],
    approximate: bool,
) -> None:
    """Write the files of an index into an empty folder.

    `arrays` are vectors of norm 1, in parts; an approximate one has a graph.
    """
    starts = [0]
    with open(os.path.join(folder, TEXTS), "wb") as file:
        for text in texts:
            starts.append(starts[-1] + file.write(json.dumps(text).encode() + b"\n"))
    np.save(os.path.join(folder, STARTS), np.array(starts, np.int64))
    vectors = np.concatenate(list(arrays))
    np.save(os.path.join(folder, VECTORS), vectors)
    if approximate:
        _write_graph(vectors, os.path.join(folder, GRAPH))
    names = [VECTORS, TEXTS, STARTS, *([GRAPH] if approximate else [])]
    settings = {**settings, "approximate": approximate, "files": checksums(folder, names)}
    with open(os.path.join(folder, INDEX), "w", encoding="utf-8") as file:
        json.dump(settings, file, indent=2)


def _write_graph(vectors: np.ndarray, path: str) -> None:
    """Build the graph of vectors, the same each time: with one thread."""
    library = faiss()
    graph = library.IndexHNSWFlat(vectors.shape[1], _NEIGHBOURS, library.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = _BUILD
    threads = library.omp_get_max_threads()
    library.omp_set_num_threads(1)
    try:
        graph.add(vectors)
    finally:
        library.omp_set_num_threads(threads)
    library.write_index(graph, path)


def faiss() -> Any:
    """Return the library of approximate search."""
    return needed("faiss", "faiss-cpu", "search", "approximate search")
