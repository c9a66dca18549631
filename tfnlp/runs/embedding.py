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

_PART = 16_384  # texts


def embed_files(config: EmbedSettings, dtype: str | None = None) -> dict[str, Any]:
    """Write a vector for each text; a call that was stopped goes on after its last whole part.

    Returns:
        `texts`, `size`, and `files`, the paths that were written.
    """
    kind = kind_of(config.output)
    files = outputs(config.output, kind)
    for path in files:
        check_free(path, config.overwrite)
    _check_options(config, kind)
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
        _begun(folder, {**_settings(config), "dtype": dtype, **_facts(config, paths, given)})
        if config.runner is None:
            count, size = _write_parts(config, texts(), folder, dtype)
        else:
            # Beam warns of clouds' libraries that are not used.
            logging.getLogger("apache_beam").setLevel(logging.ERROR)
            needed("apache_beam", "apache-beam", "beam", "`runner`")
            from tfnlp.runs.embedding_pipeline import run_pipeline

            load = functools.partial(sentence_function, config.model, _settings(config), dtype)
            count, size = run_pipeline(config, load, part_path, texts(), folder, _PART)
        if not count:
            raise ValueError(f"there are no texts in {', '.join(paths) or '`input`'}")
        _write_output(config, files, _parts(folder), (count, size), texts())
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


def _settings(config: EmbedSettings) -> dict[str, Any]:
    """Return the arguments of `Family.sentence_function`."""
    indexed = kind_of(config.output) == ""
    return {
        "pooling": config.pooling,
        "prompt": config.prompt,
        "layer": config.layer,
        "max_length": config.max_length,
        "normalize": True if indexed else False if config.raw else None,
    }


def _of_index(config: EmbedSettings) -> dict[str, Any]:
    model = config.model if isinstance(config.model, str) else config.model.path
    if os.path.exists(model):
        model = os.path.abspath(model)
    return {"tfnlp": __version__, "model": model, "embed": _settings(config)}


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
    config: EmbedSettings, texts: Iterator[str], folder: str, dtype: str | None
) -> tuple[int, int]:
    """Write the parts that are not there yet; return the number of texts and of numbers of each."""
    vectors = sentence_function(config.model, _settings(config), dtype)
    count, size = 0, len(vectors([""])[0])
    with ProgressBar(unit="texts") as bar:
        for number in itertools.count():
            part = list(itertools.islice(texts, _PART))
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
    facts = {"text": config.text, "part": _PART}
    if texts is not None:
        facts["texts"] = zlib.crc32("\0".join(texts).encode("utf-8", "surrogatepass"))
    if isinstance(config.model, str):
        walk = os.walk(config.model)
        of_model = sorted(os.path.join(at, name) for at, _, names in walk for name in names)
        # Of a file or a published name there is nothing to walk.
        every = [*paths, *(of_model or [config.model])]
        return {**facts, "files": [_fact(path) for path in every]}
    return {**facts, "files": [_fact(path) for path in paths], "weights": _checksum(config.model)}


def _checksum(loaded: Any) -> int:
    if loaded.encoder is not None:
        return weights_checksum(loaded.encoder)
    return zlib.crc32(np.ascontiguousarray(loaded.word_vectors.vectors))


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
                    print(f"going on after {len(parts) * _PART:,} texts", file=sys.stderr)
                return
    for part in parts:
        os.remove(part)
    with written_whole(path) as partial, open(partial, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)


def _parts(folder: str) -> list[str]:
    """Return the whole parts, in their order."""
    return sorted(glob.glob(os.path.join(glob.escape(folder), "*.npy")))


FILES = (".npy", ".parquet", ".tsv")  # an output without an ending is a folder, an index


def kind_of(output: str) -> str:
    """Return the ending of an output, "" of an index."""
    kind = os.path.splitext(output.rstrip("/"))[1].lower()
    if kind not in (*FILES, ""):
        raise ValueError(
            f"`output` {output} must end in {', '.join(FILES)}, or have no ending for an index to "
            "search"
        )
    return kind


def outputs(output: str, kind: str) -> list[str]:
    """Return the paths that are written."""
    if kind != ".tsv":
        return [output.rstrip("/") if kind == "" else output]
    return [output, os.path.splitext(output)[0] + ".metadata.tsv"]


def check_free(path: str, overwrite: bool) -> None:
    """Check that an output may be written."""
    if not os.path.exists(path):
        return
    if not overwrite:
        raise FileExistsError(f"{path} exists; choose another `output`, or `overwrite` it")
    if os.path.isdir(path) and not is_index(path):
        raise FileExistsError(f"{path} is a folder but no index; choose another `output`")


def _write_output(
    config: EmbedSettings,
    files: list[str],
    parts: list[str],
    shape: tuple[int, int],
    texts: Iterator[str],
) -> None:
    """Write the output, whole or not at all; but for an index with one part in memory."""
    kind, arrays = kind_of(config.output), (np.load(path) for path in parts)
    if kind == "":
        with written_whole(files[0]) as partial:
            os.mkdir(partial)
            write_index(partial, arrays, texts, _of_index(config), config.approximate)
            if os.path.exists(files[0]):
                shutil.rmtree(files[0])
    elif kind == ".npy":
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        with written_whole(files[0]) as partial, open(partial, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for array in arrays:
                file.write(array.astype("<f4").tobytes())
    elif kind == ".tsv":
        write_tables(files, arrays, {"text": texts})
    else:
        _write_parquet(files[0], arrays, shape[1], texts)


def _write_parquet(
    path: str, arrays: Iterator[np.ndarray], size: int, texts: Iterator[str]
) -> None:
    """Write the columns `text` and `embedding`, a row group a part."""
    parquet = needed("pyarrow.parquet", "pyarrow", None, path)
    pyarrow = needed("pyarrow", "pyarrow", None, path)
    vector = pyarrow.list_(pyarrow.float32(), size)
    schema = pyarrow.schema([("text", pyarrow.string()), ("embedding", vector)])
    with written_whole(path) as partial, parquet.ParquetWriter(partial, schema) as writer:
        for array in arrays:
            flat = pyarrow.array(array.ravel(), pyarrow.float32())
            columns = [
                pyarrow.array(list(itertools.islice(texts, len(array))), pyarrow.string()),
                pyarrow.FixedSizeListArray.from_arrays(flat, size),
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
