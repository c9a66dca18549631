"""Documents of texts that are too large for memory: read once, then kept in a temporary file.

A `StoredText` stands for all documents of some files. Its `StoredDocuments` are iterated as lists
of documents are, any number of times. Long documents come in pieces, see `Continued`.
"""

import dataclasses
import functools
import itertools
import mmap
import os
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tfnlp.bars import ProgressBar
from tfnlp.data.corpus.cache import cache_folder, digest, disk_errors, file_digest
from tfnlp.data.corpus.documents import document_readers, held_out_documents, no_text, open_tfds
from tfnlp.data.corpus.sentences import Continued
from tfnlp.data.rows import is_path, paths_of

SMALL = 32 << 20  # bytes of text that are read into memory
_GZIP = 4  # how much larger a text is than its .gz file, about
_PIECE = 10_000  # sentences


class StoredText:
    """The documents of text files.

    They are read when they are needed for the first time: sentences, one a line, are written to a
    file without a name in the folder of `tfnlp.data.corpus.cache`. It vanishes with this object or
    its process. Arguments are those of `read_documents`.
    """

    def __init__(self, sources: Any, layout: str = "auto", paragraphs: bool = False) -> None:
        self._names = [sources] if is_path(sources) else list(sources)
        self._readers = document_readers(sources, layout, paragraphs, _PIECE)
        self._files = [_files(reader.args[0]) for reader in self._readers]
        self._settings = [layout, paragraphs]
        self._state = self._stat()

    @property
    def num_bytes(self) -> int:
        """Bytes of text, about."""
        return sum(_text_bytes(path) for files in self._files for path in files)

    @functools.cached_property
    def key(self) -> str:
        """What the contents of the files and the settings decide; reads the files."""
        contents = [
            [[path.endswith(".gz"), file_digest(path)] for path in files] for files in self._files
        ]
        self._check_unchanged()
        # One data set may be named with several splits.
        names = [os.fspath(n) for n in self._names if os.fspath(n).startswith("tfds:")]
        return digest(*self._settings, contents, names)

    @property
    def sizes(self) -> Sequence[int]:
        """The number of sentences of each document."""
        return self._stored[1]

    def pieces(self, chosen: np.ndarray, first: int = 0, last: int | None = None) -> Iterator[list]:
        """Yield sentences first to last - 1 of the `chosen` documents, bool [D], in pieces."""
        file, sizes = self._stored
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            lines = iter(text.readline, b"")
            for size, wanted in zip(sizes, chosen, strict=True):
                end = size if last is None else min(last, size)
                begin = min(first, end) if wanted else size
                end = end if wanted else size
                _skip(lines, begin)
                for start in range(begin, end, _PIECE):
                    kind = list if start == begin else Continued
                    count = min(_PIECE, end - start)
                    yield kind(line[:-1].decode() for line in itertools.islice(lines, count))
                _skip(lines, size - end)

    @functools.cached_property
    def _stored(self) -> tuple[Any, Sequence[int]]:
        """The open file of sentences, and the sizes of the documents."""
        sizes = array("i")
        bar = ProgressBar(desc="reading", total=self.num_bytes, unit="B")
        with disk_errors(cache_folder()), bar:
            file = tempfile.TemporaryFile(dir=cache_folder())
            before = 0  # bytes of the files that were read to their ends
            for reader, files in zip(self._readers, self._files, strict=True):
                size = sum(map(_text_bytes, files))
                for document in reader():
                    data = "\n".join([*document, ""]).encode()
                    file.write(data)
                    bar.update(min(len(data), before + size - bar.n))
                    if isinstance(document, Continued):
                        sizes[-1] += len(document)
                    else:
                        sizes.append(len(document))
                before += size
                bar.update(before - bar.n)
            file.flush()
        self._check_unchanged()
        if not sizes:
            raise no_text(self._names)
        return file, sizes

    def _stat(self) -> dict[str, tuple[int, int]]:
        stats = {path: os.stat(path) for files in self._files for path in files}
        return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}

    def _check_unchanged(self) -> None:
        changed = sorted(dict(self._stat().items() - self._state.items()))
        if changed:
            raise ValueError(f"{changed[0]} changed while it was read; give the command again")


@dataclasses.dataclass(frozen=True, eq=False)
class StoredDocuments:
    """All documents of a text, those to train on or those held out.

    Attributes:
        parts: the share held out and the seed, see `split_documents`; None: all documents.
        held_out: whether these are the documents held out.
        changes: functions that each sentence goes through, one after the other.
    """

    text: StoredText
    parts: tuple[float, int] | None = None
    held_out: bool = False
    changes: tuple[Callable[[str], str], ...] = ()

    @functools.cached_property
    def key(self) -> str:
        """What decides these documents."""
        names = [change.__qualname__ for change in self.changes]
        return digest(self.text.key, self.parts, self.held_out, names)

    def split(
        self, held_out_fraction: float, seed: int
    ) -> tuple["StoredDocuments", "StoredDocuments"]:
        """Return the documents to train on and those held out, see `split_documents`."""
        parts = held_out_fraction, seed
        train, held = (dataclasses.replace(self, parts=parts, held_out=h) for h in (False, True))
        return train, held

    def map(self, change: Callable[[str], str]) -> "StoredDocuments":
        """Return the documents with another change of their sentences."""
        return dataclasses.replace(self, changes=(*self.changes, change))

    def __iter__(self) -> Iterator[list[str]]:
        sizes = self.text.sizes
        chosen, first, last = np.ones(len(sizes), bool), 0, None
        if self.parts is not None:
            held, cut = held_out_documents(sizes, *self.parts)
            if cut is None:
                chosen[list(held)] = False
                chosen ^= self.held_out
            elif self.held_out:
                first = cut
            else:
                last = cut
        for document in self.text.pieces(chosen, first, last):
            for change in self.changes:
                document[:] = map(change, document)
            yield document


def stored_text(
    text: Any, layout: str, paragraphs: bool, argument: str = "text"
) -> StoredText | None:
    """Return the `StoredText` of paths, or None for small files and for Python objects."""
    sources = paths_of(text, argument)
    if sources is None:
        return None
    stored = StoredText(sources, layout, paragraphs)
    return stored if stored.num_bytes > SMALL else None


def _files(name: str) -> list[str]:
    """Return the files of a source: a path, or the name of a TFDS data set."""
    if not name.startswith("tfds:"):
        return [name]
    folder = os.fspath(open_tfds(name)[0].data_dir)
    paths = (os.path.join(folder, entry) for entry in sorted(os.listdir(folder)))
    return [path for path in paths if os.path.isfile(path)]


def _text_bytes(path: str) -> int:
    return os.path.getsize(path) * (_GZIP if path.endswith(".gz") else 1)


def _skip(lines: Iterator[bytes], count: int) -> None:
    next(itertools.islice(lines, count, count), None)
