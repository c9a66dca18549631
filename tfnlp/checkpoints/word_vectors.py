"""Files of word vectors: word2vec (text and binary), fastText (.vec and .bin) and GloVe.

    word2vec, text    first line `V D`; then V lines of a word and D numbers, one space between
    fasttext (.vec)   the same, with a space at the end of each line of numbers
    glove             the same lines without a first one
    word2vec-binary   first line `V D`; then V times a word, a space, D float32, a line end or none
    fasttext-binary   fastText's whole model, see `checkpoints.formats.fasttext_files`

Any of them may be compressed with gzip. The format is recognised by a file's first bytes, not by
its name.
"""

import codecs
import gzip
import os
from collections.abc import Callable, Iterable, Iterator

from tfnlp.checkpoints.formats.fasttext_files import fasttext_blocks, is_fasttext, read_fasttext
from tfnlp.checkpoints.formats.word2vec_files import (
    ByteSource,
    header_sizes,
    read_binary,
    read_text,
)
from tfnlp.files import written_whole
from tfnlp.text.lines import shown
from tfnlp.text.word_vectors import WordVectors

_HEAD = 1 << 14  # bytes by which a file is recognised
_ROWS = 1024  # written at once


def read_word_vectors(path: str | os.PathLike, limit: int | None = None) -> WordVectors:
    """Read the vectors in a file of any of the formats above.

    In text words may hold spaces, as some of GloVe's do. Words that come again and words that are
    not UTF-8 are left out, with a warning of how many.

    Args:
        path: the file.
        limit: read the first so many words alone, the most frequent ones; None: all.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: one line that names the file and the line or word in it, what was found there
            and what was expected.
    """
    with ByteSource(path) as source:
        kind = _kind(source)
        try:
            if kind == "fasttext-binary":
                found = read_fasttext(source)
                first = found.words[:limit], found.vectors[:limit], found.counts[:limit]
                return WordVectors(*first, found.subwords)
            read = read_binary if kind == "word2vec-binary" else read_text
            return WordVectors(*read(source, limit))
        except ValueError as error:
            if source.path in str(error):
                raise
            raise ValueError(f"{source.path}: {error}") from error  # of `WordVectors`


def word_vectors_kind(path: str | os.PathLike) -> str | None:
    """Return the kind of a file of word vectors, or None if it holds none.

    The kinds are "text" (word2vec, fastText and GloVe), "word2vec-binary" and "fasttext-binary".
    """
    with ByteSource(path) as source:
        try:
            return _kind(source)
        except ValueError:
            return None


def _kind(source: ByteSource) -> str:
    head = source.peek(_HEAD)
    if is_fasttext(head):
        return "fasttext-binary"
    line, _, rest = head.partition(b"\n")
    sizes = header_sizes(line)
    if sizes:
        return "text" if _is_text(rest) and _has_rows(rest, sizes[1]) else "word2vec-binary"
    # A GloVe file has no header; its first line is a word and numbers.
    if _is_text(head) and len(line.split()) > 2 and _are_numbers(line, 2):
        return "text"
    start = line[:200].decode(errors="replace")
    raise ValueError(
        f"{source.path} holds no word vectors: its first line is {shown(start)}; expected "
        "`V D` (word2vec, fastText .vec), a word and its numbers (GloVe), or fastText's .bin"
    )


def _is_text(data: bytes) -> bool:
    """Return whether bytes have no control characters; some words of a text are no UTF-8."""
    return not any(byte < 32 and byte not in b"\t\n\r\x0b\x0c" for byte in data)


def _has_rows(data: bytes, size: int) -> bool:
    """Return whether bytes without control characters begin with a row of text."""
    if _are_numbers(data.partition(b"\n")[0], size):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return not _is_binary(data, size)


def _is_binary(data: bytes, size: int) -> bool:
    """Return whether text begins with a word and `4 * size` bytes that are not a number."""
    word, _, rest = data.partition(b" ")
    return rest[4 * size : 4 * size + 1] in (b"", b"\n") and not _are_numbers(rest[: 4 * size], 1)


def _are_numbers(line: bytes, count: int) -> bool:
    """Return whether the last `count` fields of a line are numbers."""
    fields = line.split()
    try:
        return len([float(field) for field in fields[-count:]]) == count
    except ValueError:
        return False


def write_word_vectors(
    path: str | os.PathLike, vectors: WordVectors, format: str = "word2vec", overwrite: bool = False
) -> None:
    """Write a file of one of `FORMATS`, compressed with gzip if its name ends with `.gz`.

    Reading it gives the same words and, to the last bit, the same vectors. Counts and subwords have
    a place in fastText's binary format alone; vectors of words with subwords are then rounded.

    Args:
        path: the file.
        vectors: words and vectors.
        format: one of `FORMATS`.
        overwrite: replace a file that exists.

    Raises:
        FileExistsError: if there is a file and `overwrite` is False, or a folder.
        OSError: if it can't be written; what was there before is unchanged.
        ValueError: for an unknown format, or a word that the format can't hold.
    """
    path = os.fspath(path)
    if format not in FORMATS:
        raise ValueError(f"format={format!r} must be one of {', '.join(FORMATS)}")
    if os.path.exists(path) and (not overwrite or os.path.isdir(path)):
        raise FileExistsError(f"{path} exists; choose another file, or `overwrite` it")
    for word in vectors.words:
        if any(mark in word for mark in (" ", "\n", "\r", "\t")) or word[0] == "\ufeff":
            raise ValueError(
                f"the word {shown(word)} holds a space or a line end, which {format} can't hold; "
                "rename it"
            )
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with written_whole(path) as partial:
        with gzip.open(partial, "wb", 6) if path.endswith(".gz") else open(partial, "wb") as file:
            file.writelines(FORMATS[format](vectors))


def _lines(vectors: WordVectors, end: str = "\n", header: bool = True) -> Iterator[bytes]:
    if header:
        yield _sizes(vectors)
    for first in range(0, len(vectors.words), _ROWS):
        # The fewest digits that are exact.
        block = vectors.vectors[first : first + _ROWS].astype("U")
        rows = zip(vectors.words[first : first + _ROWS], block.tolist(), strict=True)
        yield "".join(f"{word} {' '.join(row)}{end}" for word, row in rows).encode()


def _binary(vectors: WordVectors) -> Iterator[bytes]:
    yield _sizes(vectors)
    for word, row in zip(vectors.words, vectors.vectors.astype("<f4"), strict=True):
        yield b"%b %b\n" % (word.encode(), row.tobytes())


def _sizes(vectors: WordVectors) -> bytes:
    return b"%d %d\n" % vectors.vectors.shape


# What `write_word_vectors` writes of each.
FORMATS: dict[str, Callable[[WordVectors], Iterable[bytes]]] = {
    "word2vec": lambda vectors: _lines(vectors),
    "word2vec-binary": _binary,
    "fasttext": lambda vectors: _lines(vectors, " \n"),
    "fasttext-binary": fasttext_blocks,
    "glove": lambda vectors: _lines(vectors, header=False),
}
