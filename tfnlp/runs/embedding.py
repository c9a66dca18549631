"""Vectors of the texts of files, written in parts that a call which is stopped leaves behind.

    OUTPUT.parts/settings.json     what the parts are made of
    OUTPUT.parts/000000.npy        float32 [16384, D], the vectors of the first texts

The parts are put together at the end, and deleted.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tfnlp.data.labelled.texts import read_texts
from tfnlp.families.use_config import EmbedConfig
from tfnlp.files import written_whole
from tfnlp.locks import locked

KINDS = (".npy", ".parquet", ".tsv")
_PART = 16_384  # texts


def embed_files(config: EmbedConfig, dtype: str | None = None) -> dict[str, Any]:
    """Write a vector for each text; a call that was stopped goes on after its last whole part.

    Args:
        config: The model, the texts and the output.
        dtype: A Keras dtype policy, or None.

    Returns:
        `texts`, `size`, and `files`, the paths that were written.

    Raises:
        ValueError: for an output of another kind, no texts, or settings that the model lacks.
        FileExistsError: if the output exists and `overwrite` was not given.
        OSError: if something can't be read or written.
    """
    kind = os.path.splitext(config.output)[1].lower()
    if kind not in KINDS:
        raise ValueError(f"`output` {config.output} must end in {', '.join(KINDS)}")
    paths = config.input if isinstance(config.input, list) else [config.input]
    files = _outputs(config.output, kind)
    for path in files:
        if os.path.exists(path) and not config.overwrite:
            raise FileExistsError(f"{path} exists; choose another `output`, or `overwrite` it")
    if not os.path.isdir(os.path.dirname(os.path.abspath(config.output))):
        raise FileNotFoundError(f"there is no folder for `output` {config.output}; make it first")
    for path in paths:
        if not os.path.isfile(os.path.expanduser(path)):
            raise FileNotFoundError(f"no such file: {path}")
    folder = f"{config.output}.parts"
    with locked(folder), _kept_with_parts(folder):
        count, size = _write_parts(config, paths, folder, dtype)
        texts = itertools.chain.from_iterable(read_texts(path, config.text) for path in paths)
        _write(kind, files, _parts(folder), count, size, texts)
    shutil.rmtree(folder)
    return {"texts": count, "size": size, "files": files}


@contextlib.contextmanager
def _kept_with_parts(folder: str) -> Iterator[None]:
    """Leave nothing behind if the block fails before the first part is whole."""
    try:
        yield
    except BaseException:
        if next(_parts(folder), None) is None:
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(folder, "settings.json"))
        raise


def _outputs(output: str, kind: str) -> list[str]:
    if kind != ".tsv":
        return [output]
    return [output, os.path.splitext(output)[0] + ".metadata.tsv"]


def _write_parts(
    config: EmbedConfig, paths: list[str], folder: str, dtype: str | None
) -> tuple[int, int]:
    """Write the parts that are not there yet; return the number of texts and of numbers of each."""
    from tqdm.auto import tqdm

    from tfnlp.families.precision import check_precision
    from tfnlp.families.recognition import load_pretrained

    settings = {
        "pooling": config.pooling, "layer": config.layer, "max_length": config.max_length,
        "normalize": False if config.raw else None,
    }  # fmt: skip
    done = _begun(folder, {**settings, "dtype": dtype, **_facts(config, paths)})
    texts = itertools.chain.from_iterable(read_texts(path, config.text) for path in paths)
    loaded = load_pretrained(config.model, dtype=dtype)
    check_precision(loaded, dtype)
    vectors = loaded.family.sentence_function(loaded, settings)
    count, size = 0, len(vectors([""])[0])
    with tqdm(unit=" texts") as bar:
        for number in itertools.count():
            part = list(itertools.islice(texts, _PART))
            if not part:
                break
            path = os.path.join(folder, f"{number:06d}.npy")
            if number >= done:
                found = vectors(part)
                with written_whole(path) as partial, open(partial, "wb") as file:
                    np.save(file, found)
            else:
                bar.initial += len(part)
            bar.update(len(part))
            count += len(part)
    if not count:
        raise ValueError(f"there are no texts in {', '.join(map(str, paths))}")
    return count, size


def _facts(config: EmbedConfig, paths: list[str]) -> dict[str, Any]:
    """Return what tells other texts and another model from these, as JSON."""
    facts = {"text": config.text, "part": _PART}
    if isinstance(config.model, str):
        held = _files(config.model) if os.path.exists(config.model) else [config.model]
        return {**facts, "files": [_fact(path) for path in [*paths, *held]]}
    return {**facts, "files": [_fact(path) for path in paths], "weights": _checksum(config.model)}


def _checksum(loaded: Any) -> int:
    """Return a checksum of the weights of a model in memory."""
    if loaded.encoder is None:
        arrays = [] if loaded.word_vectors is None else [loaded.word_vectors.vectors]
    else:
        arrays = [variable.numpy() for variable in loaded.encoder.variables]
    key = 0
    for array in arrays:
        key = zlib.crc32(np.ascontiguousarray(array), key)
    return key


def _files(model: str) -> list[str]:
    if os.path.isfile(model):
        return [model]
    return sorted(os.path.join(at, name) for at, _, names in os.walk(model) for name in names)


def _fact(path: str) -> list[Any]:
    path = os.path.expanduser(path)
    if not os.path.exists(path):  # a published name
        return [path]
    stated = os.stat(path)
    return [os.path.abspath(path), stated.st_size, stated.st_mtime_ns]


def _begun(folder: str, facts: dict[str, Any]) -> int:
    """Return how many parts of the same call are there; those of another call are deleted."""
    path, facts = os.path.join(folder, "settings.json"), json.loads(json.dumps(facts))
    parts = list(_parts(folder))
    with contextlib.suppress(OSError, ValueError):
        with open(path, encoding="utf-8") as file:
            if json.load(file) == facts:
                if parts:
                    print(f"going on after {len(parts) * _PART:,} texts", file=sys.stderr)
                return len(parts)
    for part in parts:
        os.remove(part)
    with written_whole(path) as partial, open(partial, "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
    return 0


def _parts(folder: str) -> Iterator[str]:
    """Yield the whole parts, in their order."""
    for number in itertools.count():
        path = os.path.join(folder, f"{number:06d}.npy")
        if not os.path.exists(path):
            return
        yield path


def _write(
    kind: str, files: list[str], parts: Iterator[str], count: int, size: int, texts: Iterator[str]
) -> None:
    """Write the output, whole or not at all, with one part in memory."""
    arrays = (np.load(path) for path in parts)
    if kind == ".npy":
        header = {"descr": "<f4", "fortran_order": False, "shape": (count, size)}
        with written_whole(files[0]) as partial, open(partial, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for array in arrays:
                file.write(array.astype("<f4").tobytes())
    elif kind == ".tsv":
        with written_whole(files[1]) as partial, open(partial, "w", encoding="utf-8") as file:
            # The projector reads a row a line, and no header of a single column.
            file.writelines(" ".join(text.split()) + "\n" for text in texts)
        with written_whole(files[0]) as partial, open(partial, "w", encoding="utf-8") as file:
            for array in arrays:
                np.savetxt(file, array, fmt="%.8g", delimiter="\t")
    else:
        _write_parquet(files[0], arrays, size, texts)


def _write_parquet(
    path: str, arrays: Iterator[np.ndarray], size: int, texts: Iterator[str]
) -> None:
    """Write the columns `text` and `embedding`, a row group a part."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: Parquet files need pyarrow; pip install pyarrow") from error
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
