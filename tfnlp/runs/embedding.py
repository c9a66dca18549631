"""Vectors of the texts of files, written in parts that a call which is stopped leaves behind.

    OUTPUT.parts/settings.json     what the parts are made of
    OUTPUT.parts/000000.npy        float32 [16384, D], the vectors of the first texts

The parts are put together at the end, and deleted.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import itertools
import json
import logging
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tfnlp import __version__
from tfnlp.bars import ProgressBar
from tfnlp.data.corpus.documents import named_files
from tfnlp.data.rows import held, paths_of
from tfnlp.data.texts import read_texts, texts_of
from tfnlp.extras import needed
from tfnlp.families.distilbert import weights_checksum
from tfnlp.families.recognition import check_precision, load_pretrained
from tfnlp.files import written_whole
from tfnlp.locks import PREFIX as LOCK
from tfnlp.locks import locked
from tfnlp.runs.projector import write_tables
from tfnlp.runs.search_index import faiss, is_index, write_index
from tfnlp.settings.use import EmbedSettings

PART = 16_384  # texts


def embed_files(config: EmbedSettings, dtype: str | None = None) -> dict[str, Any]:
    """Write a vector for each text; a call that was stopped goes on after its last whole part.

    Returns:
        `texts`, `size`, and `files`, the paths that were written.
    """
    kind, files = _outputs(config)
    _check_options(config, kind)
    settings = _settings(config, kind)
    if not os.path.isdir(os.path.dirname(os.path.abspath(config.output))):
        raise FileNotFoundError(f"there is no folder for `output` {config.output}; make it first")
    rows = held(config.input)
    sources = paths_of(rows, "input")
    paths = [] if sources is None else named_files(sources)
    given = texts_of(rows, "input", config.text) if sources is None else None

    def texts() -> Iterator[str]:
        if given is not None:
            return iter(given)
        return itertools.chain.from_iterable(read_texts(path, config.text) for path in paths)

    folder = f"{files[0]}.parts"
    with locked(folder), _kept_with_parts(folder):
        _begun(folder, {**settings, "dtype": dtype, **_facts(config, paths, given)})
        if config.runner is None:
            vectors = sentence_function(config.model, settings, dtype)
            count, size = _write_parts(vectors, texts(), folder)
        else:
            # Beam warns of clouds' libraries that are not used.
            logging.getLogger("apache_beam").setLevel(logging.ERROR)
            needed("apache_beam", "apache-beam", "beam", "`runner`")
            from tfnlp.runs.embedding_pipeline import run_pipeline

            load = functools.partial(sentence_function, config.model, settings, dtype)
            count, size = run_pipeline(config, load, part_path, texts(), folder, PART)
        if not count:
            raise ValueError(f"there are no texts in {', '.join(paths) or '`input`'}")
        arrays = (np.load(path) for path in _parts(folder))
        if kind == "":
            with written_whole(files[0]) as partial:
                os.mkdir(partial)
                made_by = _made_by(config, settings)
                write_index(partial, arrays, texts(), made_by, config.approximate)
                if os.path.exists(files[0]):
                    shutil.rmtree(files[0])
        elif kind == ".tsv":
            write_tables(files, arrays, {"text": texts()})
        else:
            write = _write_npy if kind == ".npy" else _write_parquet
            write(files[0], arrays, (count, size), texts())
    shutil.rmtree(folder)
    return {"texts": count, "size": size, "files": files}


def _check_options(config: EmbedSettings, kind: str) -> None:
    """Refuse options that do not fit the output or each other."""
    in_memory = not isinstance(config.model, str)
    if kind == "" and config.raw:
        raise ValueError("an index has vectors of norm 1; leave `raw` out")
    if kind == "" and in_memory and config.model.path is None:
        raise ValueError("an index states where its model is; save `model`, and give its path")
    if kind != "" and config.approximate:
        raise ValueError(
            f"`approximate` is for an index; `output` {config.output} is a file of vectors"
        )
    if config.approximate:
        faiss()  # raises before all is computed
    if config.runner is None:
        for name in ("workers", "pipeline_options"):
            if name in config.given:
                raise ValueError(f"`{name}` is for a pipeline of Beam; give a `runner`")
    elif in_memory:
        raise ValueError("workers of a pipeline load the model; give its path as `model`")


def _settings(config: EmbedSettings, kind: str) -> dict[str, Any]:
    """Return the arguments of `Family.sentence_function`."""
    names = ("pooling", "prompt", "layer", "max_length")
    found = {name: getattr(config, name) for name in names}
    return {**found, "normalize": True if kind == "" else False if config.raw else None}


def _made_by(config: EmbedSettings, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what an index says of the model of its vectors."""
    model = config.model if isinstance(config.model, str) else config.model.path
    if os.path.exists(model):
        model = os.path.abspath(model)
    return {"tfnlp": __version__, "model": model, "embed": settings}


@contextlib.contextmanager
def _kept_with_parts(folder: str) -> Iterator[None]:
    """Leave nothing behind if the block fails before the first part is whole."""
    try:
        yield
    except BaseException:
        if not _parts(folder):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if os.path.isdir(path):
                    shutil.rmtree(path)
                elif not name.startswith(LOCK):
                    os.remove(path)
        raise


def _write_parts(
    vectors: Callable[..., np.ndarray], texts: Iterator[str], folder: str
) -> tuple[int, int]:
    """Write the parts that are not there yet; return the number of texts and of numbers of each."""
    count, size = 0, len(vectors([""])[0])
    with ProgressBar(unit="texts") as bar:
        for number in itertools.count():
            part = list(itertools.islice(texts, PART))
            if not part:
                break
            path = part_path(folder, number)
            if os.path.exists(path):
                bar.update(len(part))
            else:
                found = vectors(part, bar.update)
                with written_whole(path) as partial, open(partial, "wb") as file:
                    np.save(file, found)
            count += len(part)
    return count, size


def sentence_function(
    model: Any, settings: dict[str, Any], dtype: str | None
) -> Callable[..., np.ndarray]:
    """Return a function of strings to vectors of a model that is loaded here."""
    loaded = load_pretrained(model, dtype=dtype)
    check_precision(loaded, dtype)
    return loaded.family.sentence_function(loaded, settings)


def part_path(folder: str, number: int) -> str:
    """Return the path of the vectors of a part."""
    return os.path.join(folder, f"{number:06d}.npy")


def _facts(config: EmbedSettings, paths: list[str], texts: list[str] | None) -> dict[str, Any]:
    """Return what tells other texts and another model from these, as JSON."""
    facts = {"text": config.text, "part": PART}
    if texts is not None:
        facts["texts"] = zlib.crc32("\0".join(texts).encode("utf-8", "surrogatepass"))
    if not isinstance(config.model, str):
        of_words = config.model.word_vectors
        if config.model.encoder is not None:
            facts["weights"] = weights_checksum(config.model.encoder)
        else:
            facts["weights"] = zlib.crc32(np.ascontiguousarray(of_words.vectors))
        return {**facts, "files": [_fact(path) for path in paths]}
    walk = os.walk(config.model)
    of_model = sorted(os.path.join(at, name) for at, _, names in walk for name in names)
    # Of a file or a published name there is nothing to walk.
    return {**facts, "files": [_fact(path) for path in [*paths, *(of_model or [config.model])]]}


def _fact(path: str) -> list[Any]:
    path = os.path.expanduser(path)
    if not os.path.exists(path):  # a published name
        return [path]
    stated = os.stat(path)
    return [os.path.abspath(path), stated.st_size, stated.st_mtime_ns]


def _begun(folder: str, facts: dict[str, Any]) -> None:
    """Keep the parts of the same call; delete those of another one."""
    path, facts = os.path.join(folder, "settings.json"), json.loads(json.dumps(facts))
    parts = _parts(folder)
    with contextlib.suppress(OSError, ValueError):
        with open(path, encoding="utf-8") as file:
            if json.load(file) == facts:
                if parts:
                    print(f"going on after {len(parts) * PART:,} texts", file=sys.stderr)
                return
    for part in parts:
        os.remove(part)
    with written_whole(path) as partial, open(partial, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)


def _parts(folder: str) -> list[str]:
    """Return the whole parts, in their order."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*.npy")))


_FILES = (".npy", ".parquet", ".tsv")  # an output without an ending is a folder, an index


def _outputs(config: EmbedSettings) -> tuple[str, list[str]]:
    """Return the ending of the output, "" of an index, and the paths that may be written."""
    output = config.output
    stem, ending = os.path.splitext(output.rstrip("/"))
    kind = ending.lower()
    if kind not in (*_FILES, ""):
        raise ValueError(
            f"`output` {output} must end in {', '.join(_FILES)}, or have no ending for an index to "
            "search"
        )
    files = [stem] if kind == "" else [output]
    if kind == ".tsv":
        files.append(f"{stem}.metadata.tsv")
    for path in filter(os.path.exists, files):
        if not config.overwrite:
            raise FileExistsError(f"{path} exists; choose another `output`, or `overwrite` it")
        if os.path.isdir(path) and not is_index(path):
            raise FileExistsError(f"{path} is a folder but no index; choose another `output`")
    return kind, files


def _write_npy(
    path: str, arrays: Iterator[np.ndarray], shape: tuple[int, int], texts: Iterator[str]
) -> None:
    """Write one array, with one part in memory."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with written_whole(path) as partial, open(partial, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for array in arrays:
            file.write(array.astype("<f4").tobytes())


def _write_parquet(
    path: str, arrays: Iterator[np.ndarray], shape: tuple[int, int], texts: Iterator[str]
) -> None:
    """Write the columns `text` and `embedding`, a row group a part."""
    parquet = needed("pyarrow.parquet", "pyarrow", None, path)
    pyarrow = needed("pyarrow", "pyarrow", None, path)
    vector = pyarrow.list_(pyarrow.float32(), shape[1])
    schema = pyarrow.schema([("text", pyarrow.string()), ("embedding", vector)])
    with written_whole(path) as partial, parquet.ParquetWriter(partial, schema) as writer:
        for array in arrays:
            flat = pyarrow.array(array.ravel(), pyarrow.float32())
            columns = [
                pyarrow.array(list(itertools.islice(texts, len(array))), pyarrow.string()),
                pyarrow.FixedSizeListArray.from_arrays(flat, shape[1]),
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
