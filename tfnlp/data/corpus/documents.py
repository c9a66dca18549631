"""Text files and TFDS data sets as a stream of documents, each a list of sentences."""

import codecs
import functools
import glob
import gzip
import io
import itertools
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfnlp import books
from tfnlp.data.corpus.sentences import (
    check_layout,
    checked_documents,
    documents_between_marks,
    looks_like_sentences,
    looks_like_words,
    one_document,
)
from tfnlp.extras import needed
from tfnlp.files import no_file

_SAMPLE_LINES = 2000  # from which layout="auto" is decided
_SNIFFED_BYTES = 1 << 16  # many NUL bytes in them show a binary file
_FORMATS = {
    b"\x1f\x8b": "compressed with gzip; its name must end in .gz",
    b"PK\x03\x04": "a ZIP archive or an Excel sheet; unpack it, or save the sheet as .csv",
    b"PAR1": "a Parquet file; its name must end in .parquet, where such files are read",
}  # by their first bytes

# NAME[/CONFIG][:VERSION][:SPLIT]; a split may be a slice such as train[:10%].
_SOURCE = re.compile(
    r"tfds:(?P<name>[^:\[\]]+(?::(?:\d+|\*)\.(?:\d+|\*)\.(?:\d+|\*))?)(?::(?P<split>.+))?"
)


def read_documents(
    sources: str | os.PathLike | Sequence[str | os.PathLike],
    layout: str = "auto",
    paragraphs: bool = False,
) -> Iterator[list[str]]:
    """Yield the documents of text files and TFDS data sets, in the order of the sources.

    Args:
        sources: one source or several. A source is the path of a UTF-8 text file (with `~` and a
            byte order mark, if need be; `.gz` is unpacked), a glob (its matches in sorted order,
            `**` goes through folders), `book:NAME` (one of `tfnlp.books`), or `tfds:NAME[:SPLIT]`:
            any prepared TFDS data set with a string feature ("text", else the first one), of which
            every example is one document. The split is "train" if left out; data sets are looked
            for in the folder of the environment variable TFDS_DATA_DIR, else where TFDS puts them.
        layout: "lines" (one sentence per line, a blank line between documents), "words" (one word
            per line, a blank line between sentences, two between documents), "prose" (see
            `tfnlp.data.corpus.sentences`), or "auto", which decides for each file from its first
            2,000 lines and takes TFDS examples for prose.
        paragraphs: of prose, return whole paragraphs instead of sentences.

    Raises:
        ValueError: for an unknown layout or an empty list of sources; while reading, for a file
            that is not UTF-8 text, a TFDS data set without text, or sources without any text.
        FileNotFoundError: a file is missing, a glob matches nothing, a TFDS data set is unknown or
            not prepared.
        IsADirectoryError, OSError: a folder; a damaged or truncated gzip file.
    """
    return _chain(document_readers(sources, layout, paragraphs), sources)


def document_readers(
    sources: str | os.PathLike | Sequence[str | os.PathLike],
    layout: str = "auto",
    paragraphs: bool = False,
    longest: int = sys.maxsize,
) -> list[functools.partial]:
    """Return a function for each file and data set that `read_documents` reads, in its order.

    Each returns an iterator of documents, possibly empty, and can be pickled. Its first argument is
    the file's path, or the name of the data set. `longest` is that of
    `documents_between_marks`; it holds for files. The other arguments and the errors are those of
    `read_documents`.
    """
    check_layout(layout)
    if isinstance(sources, (str, os.PathLike)):
        sources = [sources]
    if not sources:
        raise ValueError("sources is empty; give at least one text file, glob or tfds:NAME")
    # Wrong names are reported now, not after an hour of reading the files before them.
    readers = []
    for name in named_files(sources):
        if name.startswith("tfds:"):
            _tfds_text(name)
            readers.append(functools.partial(_read_tfds, name, layout, paragraphs))
        else:
            readers.append(functools.partial(_read_file, name, layout, paragraphs, longest))
    return readers


def split_documents(
    documents: Iterable[list[str]], held_out_fraction: float, seed: int
) -> tuple[list[list[str]], list[list[str]]]:
    """Split documents into a training part and a held-out part, measured in sentences.

    Whole documents, drawn with `seed`, are held out until they make up the fraction. Documents with
    which the held-out part would be more than twice the fraction are skipped unless nothing smaller
    is left. Each part has at least one document, and both keep the order. A single document is cut
    instead: its last sentences are held out.

    Raises:
        ValueError: a fraction outside (0, 1), a document that is a string, fewer than two
            sentences.
    """
    documents = [document for document in checked_documents(documents) if document]
    sizes = [len(document) for document in documents]
    held, cut = held_out_documents(sizes, held_out_fraction, seed)
    if cut is not None:
        return [documents[0][:cut]], [documents[0][cut:]]
    train = [document for index, document in enumerate(documents) if index not in held]
    return train, [documents[index] for index in sorted(held)]


def held_out_documents(
    sizes: Sequence[int], held_out_fraction: float, seed: int
) -> tuple[set[int], int | None]:
    """Return the numbers of the documents that `split_documents` holds out, from their sizes.

    Of a single document also the number of its first held-out sentence, else None.
    """
    if not 0 < held_out_fraction < 1:
        raise ValueError(f"held_out_fraction must lie between 0 and 1; got {held_out_fraction}")
    total = int(np.sum(sizes, dtype=np.int64))
    if total < 2:
        raise ValueError(
            f"documents hold {total} sentence(s); a split needs at least 2, so give more text"
        )
    wanted = held_out_fraction * total
    if len(sizes) == 1:
        return set(), sizes[0] - min(max(round(wanted), 1), sizes[0] - 1)
    order = np.random.Generator(np.random.Philox(key=seed)).permutation(len(sizes))
    held, held_size = set(), 0
    for index in map(int, order):
        if held_size >= wanted:
            break
        if held_size + sizes[index] <= 2 * wanted:
            if len(held) < len(sizes) - 1:
                held.add(index)
                held_size += sizes[index]
    if held_size < wanted and len(sizes) - len(held) > 1:
        # Only long documents are left: take the shortest.
        left = (index for index in map(int, order) if index not in held)
        held.add(min(left, key=sizes.__getitem__))
    return held, None


def _chain(readers: Sequence[functools.partial], sources: Any) -> Iterator[list[str]]:
    documents = itertools.chain.from_iterable(reader() for reader in readers)
    first = next(documents, None)
    if first is None:
        raise no_text(sources)
    yield first
    yield from documents


def no_text(sources: str | os.PathLike | Iterable[str | os.PathLike]) -> ValueError:
    """Return the error for sources without any text."""
    sources = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    names = ", ".join(map(os.fspath, sources))
    return ValueError(f"no text in {names}; give files that contain sentences")


def named_files(sources: Iterable[str | os.PathLike]) -> list[str]:
    """Return the files and `tfds:` names of paths, globs and `tfds:` and `book:` names."""
    found = []
    for source in map(os.fspath, sources):
        if source.startswith("tfds:"):
            found.append(source)
        elif source.startswith("book:"):
            found.append(str(books.path(source.removeprefix("book:"))))
        else:
            found += _expand(source)
    return found


def _expand(source: str) -> list[str]:
    """Return the files that a path or glob stands for."""
    path = os.path.expanduser(source)
    if os.path.isdir(path):
        raise IsADirectoryError(f"{source} is a folder; expected a text file or a glob: {source}/*")
    if os.path.exists(path):  # before globbing, since [ is allowed in file names
        return [path]
    if not glob.has_magic(path):
        raise no_file(source)
    files = [match for match in sorted(glob.glob(path, recursive=True)) if os.path.isfile(match)]
    if not files:
        raise FileNotFoundError(f"no file matches {source}")
    return files


def _read_file(path: str, layout: str, paragraphs: bool, longest: int) -> Iterator[list[str]]:
    lines = read_lines(path)
    if layout == "auto":
        sample = list(itertools.islice(lines, _SAMPLE_LINES))
        layout = "prose"
        if looks_like_words(sample):
            layout = "words"
        elif looks_like_sentences(sample):
            layout = "lines"
        lines = itertools.chain(sample, lines)
    yield from documents_between_marks(lines, layout, paragraphs, longest)


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file without their ends, which may be LF, CR LF or CR.

    NUL characters are left out.
    """
    opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb", buffering=0)
    offset = 0
    with opened, io.BufferedReader(opened, _SNIFFED_BYTES) as stream:
        try:
            _check_text(path, stream.peek(_SNIFFED_BYTES))
            for raw in stream:
                line = raw.decode("utf-8").replace("\0", "")
                if offset == 0:
                    line = line.removeprefix("\ufeff")
                yield from line.rstrip("\r\n").split("\r")
                offset += len(raw)
        except UnicodeDecodeError as error:
            where = offset + error.start
            raise ValueError(
                f"{path} is not UTF-8 text: invalid byte 0x{error.object[error.start]:02x} at byte "
                f"{where}; convert the file to UTF-8 first"
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise OSError(f"{path} is a damaged or truncated gzip file: {error}") from error


def _check_text(path: str, start: bytes) -> None:
    """Check that a file may be text by its first bytes."""
    for mark, what in _FORMATS.items():
        if start.startswith(mark):
            raise ValueError(f"{path} is {what}")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path} is UTF-16 text; convert the file to UTF-8 first")
    if start.count(b"\0") > len(start) // 4:
        raise ValueError(
            f"{path} holds NUL bytes: expected UTF-8 text, not a binary or UTF-16 file"
        )


def _tfds_text(source: str) -> tuple[Any, str, str]:
    """Return the builder of a prepared TFDS data set, the split, and the feature with the text."""
    builder, split = open_tfds(source)
    texts = [
        key
        for key, spec in builder.info.features.get_tensor_info().items()
        if getattr(spec, "shape", None) == () and spec.tf_dtype.name == "string"
    ]
    if not texts:
        raise ValueError(
            f"the TFDS data set {builder.name!r} has no string feature; its features are "
            f"{', '.join(builder.info.features)}"
        )
    return builder, split, "text" if "text" in texts else texts[0]


def _read_tfds(source: str, layout: str, paragraphs: bool) -> Iterator[list[str]]:
    builder, split, text = _tfds_text(source)
    tfds = needed("tensorflow_datasets", "tensorflow-datasets", "tfds", source)
    dataset = builder.as_dataset(
        split=split, decoders=tfds.decode.PartialDecoding({text: True}), shuffle_files=False
    )
    for number, example in enumerate(dataset.as_numpy_iterator()):
        try:
            lines = example[text].decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(f"{source}: example {number} is not UTF-8 text") from error
        yield from one_document(lines, layout, paragraphs)


def open_tfds(source: str) -> tuple[Any, str]:
    """Return the builder of a prepared TFDS data set, and the split; see `read_documents`."""
    tfds = needed("tensorflow_datasets", "tensorflow-datasets", "tfds", source)
    match = _SOURCE.fullmatch(source)
    if not match:
        raise ValueError(f"expected tfds:NAME[:SPLIT], such as tfds:imdb_reviews; got {source!r}")
    name, split = match["name"], match["split"] or "train"
    try:
        builder = tfds.builder(name, data_dir=os.environ.get("TFDS_DATA_DIR"))
    except tfds.core.DatasetNotFoundError:
        raise FileNotFoundError(
            f"TFDS knows no data set {name!r} (from {source}); check the name and TFDS_DATA_DIR"
        ) from None  # whose message lists all data sets
    except (AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{source} names no version or config of a TFDS set: {reason}") from None
    if not builder.is_prepared():
        raise FileNotFoundError(
            f"the TFDS data set {name!r} is not prepared in {builder.data_dir}; run "
            f"tfds.load({name!r}) once or set TFDS_DATA_DIR to its folder"
        )
    try:
        builder.info.splits[split]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"the TFDS data set {name!r} has no split {split!r}; choose from "
            f"{', '.join(builder.info.splits)}"
        ) from error
    return builder, split
