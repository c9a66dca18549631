"""Search in texts by the vectors of a model.

INDEX/index.json    the model, how it makes vectors, checksums of the other files
INDEX/vectors.npy   float32 [N, D], of norm 1
INDEX/texts.jsonl   the texts, a JSON string a line
INDEX/starts.npy    int64 [N + 1], the byte in texts.jsonl where each line begins
INDEX/graph.faiss   of an approximate index: the graph of faiss
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NoReturn

import numpy as np

from tfnlp.checkpoints.formats.tensors import reading, reason
from tfnlp.checksums import check_files, checksums
from tfnlp.data.rows import is_text
from tfnlp.data.texts import texts_of
from tfnlp.extras import needed
from tfnlp.families.recognition import load_pretrained
from tfnlp.formats import export
from tfnlp.settings.use import SearchSettings

INDEX, VECTORS, TEXTS, STARTS, GRAPH = (
    "index.json", "vectors.npy", "texts.jsonl", "starts.npy", "graph.faiss",
)  # fmt: skip
_SETTINGS = {  # of the vectors, and their types
    "pooling": (str, type(None)), "normalize": (bool, type(None)), "layer": (int,),
    "max_length": (int, type(None)), "prompt": (str, type(None)),
}  # fmt: skip
_AGAIN = "embed the texts again"
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
        ValueError: if one was changed, or they do not belong together.
    """

    title = "an index"
    prediction = SearchSettings

    def __init__(self, folder: str | os.PathLike[str], model: Any = None) -> None:
        self.path = os.fspath(folder)
        path = os.path.join(self.path, INDEX)
        try:
            with open(path, encoding="utf-8") as file:
                self.settings = json.load(file)
            known = _is_known(self.settings)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is damaged ({reason(error)}); {_AGAIN}") from error
        if not known:
            raise ValueError(f"{path} is damaged: it states no model, vectors and files; {_AGAIN}")
        check_files(self.path, self.settings["files"], path, _AGAIN)
        self._model = model
        self._vectors, self._starts = self._array(VECTORS), self._array(STARTS)
        self._check()

    def __len__(self) -> int:
        return len(self._vectors)

    def __repr__(self) -> str:
        return f"Index({self.path!r}, {len(self):,} texts)"

    @functools.cached_property
    def model(self) -> Any:
        """The model of the queries' vectors."""
        return load_pretrained(self._model or self.settings["model"])

    def search(
        self, queries: Any, top: int = 5, exact: bool | None = None, prompt: str | None = None
    ) -> list:
        """Return the texts whose vectors have the largest products with those of queries.

        Args:
            queries: A string, or several as in `Pretrained.embed`.
            top: Texts for each.
            exact: Compare all vectors; False: search the graph; None: the graph if there is one.
            prompt: Of the queries, see `Pretrained.embed`; None: that of the texts.

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
        vectors = self.model.family.embedded(self.model, several, self.embedding(prompt))
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

    def lines(self, config: SearchSettings) -> Iterator[str]:
        """Yield what `tfnlp predict` prints: the texts that are found for each text."""
        config.check_texts()
        index = self if config.encoder is None else Index(self.path, config.encoder)
        exact = True if config.exact else None
        found = index.search(config.text, config.top, exact, config.prompt)
        for query, rows in zip(config.text, found, strict=True):
            if config.json:
                yield json.dumps({"query": query, "found": rows}, ensure_ascii=False) + "\n"
                continue
            if len(found) > 1:
                yield f"{query}\n"
            for row in rows:
                yield f"{row['score']:7.4f}  {row['row']:>8}  {row['text']}\n"

    def text(self, row: int) -> str:
        """Return a text by its number."""
        with open(os.path.join(self.path, TEXTS), "rb") as file:
            return self._read(file, row)

    def texts(self) -> Iterator[str]:
        """Yield all texts."""
        with open(os.path.join(self.path, TEXTS), "rb") as file:
            for row in range(len(self)):
                yield self._read(file, row)

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
            settings: `prompt` of the queries.

        Returns:
            `{"module": path}`.

        Raises:
            ValueError: for a model without a network of tokens.
            OSError: if it can't be written, or is there already without `overwrite`.
        """
        given = {"top": top, "overwrite": overwrite, **settings}
        return export(self, directory, given, card=None)

    @property
    def family(self) -> Any:
        """Family of the model."""
        return self.model.family

    def embedding(self, prompt: str | None = None) -> dict[str, Any]:
        """Return the settings of the vectors of queries, see `Pretrained.embed`."""
        stated = self.settings["embed"]
        return stated if prompt is None else {**stated, "prompt": prompt}

    @property
    def vectors(self) -> np.ndarray:
        """Of all texts, float32 `[N, D]`."""
        return np.asarray(self._vectors)

    def _array(self, name: str) -> np.ndarray:
        path = os.path.join(self.path, name)
        with reading(path):
            return np.lib.format.open_memmap(path, mode="r")

    def _check(self) -> None:
        """Check that vectors, starts of lines and texts are of one collection."""
        vectors, starts = self._vectors, self._starts
        if vectors.ndim != 2 or vectors.dtype != np.float32 or not vectors.size:
            self._refuse(VECTORS, f"{vectors.dtype} {vectors.shape}, not float32 [N, D]")
        if starts.shape != (len(self) + 1,) or starts.dtype != np.int64:
            self._refuse(STARTS, f"{starts.dtype} {starts.shape}, not int64 [{len(self) + 1}]")
        size = os.path.getsize(os.path.join(self.path, TEXTS))
        rising = (starts[1:] > starts[:-1]).all()  # a difference could overflow
        if starts[0] != 0 or starts[-1] != size or not rising:
            self._refuse(STARTS, f"no places of {len(self):,} lines in {size:,} bytes of {TEXTS}")
        for first in range(0, len(self), _BLOCK):
            if not np.isfinite(vectors[first : first + _BLOCK]).all():
                self._refuse(VECTORS, "numbers that are not finite")

    def _refuse(self, name: str, what: str) -> NoReturn:
        raise ValueError(f"{os.path.join(self.path, name)} holds {what}; {_AGAIN}")

    def _read(self, file: BinaryIO, row: int) -> str:
        file.seek(int(self._starts[row]))
        line = file.read(int(self._starts[row + 1] - self._starts[row]))
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(text := json.loads(line), str):
                return text
        self._refuse(TEXTS, f"no text in line {row + 1}")

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
        scores, rows = self._graph.search(queries, top)
        # Among texts that are repeated the graph has no way to enough others: row -1.
        few = (rows < 0).any(1)
        if few.any():
            scores[few], rows[few] = self._in_all(queries[few], top)
        if not np.isfinite(scores).all():
            self._refuse(GRAPH, "numbers that are not finite")
        return scores, rows

    @functools.cached_property
    def _graph(self) -> Any:
        path = os.path.join(self.path, GRAPH)
        with reading(path):
            graph = faiss().read_index(path)
        shape = graph.ntotal, graph.d
        if type(graph).__name__ != "IndexHNSWFlat" or shape != self._vectors.shape:
            self._refuse(GRAPH, f"{type(graph).__name__} {shape}, not a graph of {VECTORS}")
        return graph


def _is_known(settings: Any) -> bool:
    """Return whether the contents of `index.json` have what is read, in its types."""
    if not isinstance(settings, dict) or not isinstance(settings.get("model"), str):
        return False
    approximate, files = settings.get("approximate", False), settings.get("files")
    if type(approximate) is not bool or not isinstance(files, dict):
        return False
    embed, names = settings.get("embed"), {VECTORS, TEXTS, STARTS, *[GRAPH] * approximate}
    return (
        isinstance(embed, dict)
        and embed.keys() <= _SETTINGS.keys()
        and all(type(value) in _SETTINGS[name] for name, value in embed.items())
        and names <= files.keys()
    )


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
