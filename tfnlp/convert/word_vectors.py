"""Files of word vectors: word2vec's text and binary, fastText's .vec and .bin, GloVe's.

    word2vec, text    first line `V D`; then V lines of a word and D numbers, one space between
    fasttext (.vec)   the same, with a space at the end of each line of numbers
    glove             the same lines without a first one
    word2vec-binary   first line `V D`; then V times a word, a space, D float32, a line end or none
    fasttext-binary   fastText's whole model: see `tfnlp.convert.formats.fasttext_binary`; read only

Any of them may be packed with gzip. What a file is is found in its first bytes, not in its name.
"""

import codecs
import gzip
import os
import uuid
from collections.abc import Iterator

from tfnlp.convert.formats.fasttext_binary import is_fasttext, read_fasttext
from tfnlp.convert.formats.tensors import shown
from tfnlp.convert.formats.word_vectors_files import Source, read_binary, read_text, size_of_header
from tfnlp.text.words.vectors import WordVectors

FORMATS = ("word2vec", "word2vec-binary", "fasttext", "glove")  # those that are written
_HEAD = 1 << 14  # bytes that a file is recognised by
_ROWS = 1024  # written at once


def read_word_vectors(path: str | os.PathLike) -> WordVectors:
    """The vectors in a file of any of the formats above.

    Words have to be UTF-8. In text they may hold spaces, as some of GloVe's do.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: one line with the file, the line or word in it, what is wrong there and what was
        expected.
    """
    with Source(path) as source:
        kind = _kind(source)
        if kind == "fasttext-binary":
            return read_fasttext(source)
        words, vectors = (read_binary if kind == "word2vec-binary" else read_text)(source)
    return WordVectors(words, vectors)


def word_vectors_kind(path: str | os.PathLike) -> str | None:
    """"text" (word2vec, fastText and GloVe), "word2vec-binary", "fasttext-binary", or None for a
    file that holds no word vectors.

    Raises:
      FileNotFoundError: there is no such file.
    """
    with Source(path) as source:
        try:
            return _kind(source)
        except ValueError:
            return None


def _kind(source: Source) -> str:
    head = source.peek(_HEAD)
    if is_fasttext(head):
        return "fasttext-binary"
    line, _, rest = head.partition(b"\n")
    if size_of_header(line):
        return "text" if _is_text(rest) else "word2vec-binary"
    # A GloVe file tells nothing about itself; its first line is a word and numbers.
    if _is_text(head) and _is_row(line):
        return "text"
    raise ValueError(
        f"{source.path} holds no word vectors: its first line is {shown(_text(line))}; expected "
        "`V D` (word2vec, fastText .vec), a word and its numbers (GloVe), or fastText's .bin"
    )


def _is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8, but for the last character, without control characters."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return not any(byte < 32 and byte not in b"\t\n\r\x0b\x0c" for byte in data)


def _is_row(line: bytes) -> bool:
    fields = line.split()
    try:
        [float(field) for field in fields[-2:]]
    except ValueError:
        return False
    return len(fields) > 2


def _text(line: bytes) -> str:
    return line[:200].decode("utf-8", errors="replace")


def write_word_vectors(
    path: str | os.PathLike, vectors: WordVectors, format: str = "word2vec", overwrite: bool = False
) -> None:
    """Writes a file of one of `FORMATS`, whole or not at all; packed if its name ends with `.gz`.

    Reading it gives the same words and, to the last bit, the same vectors. Counts and subwords have
    no place in these formats.

    Raises:
      FileExistsError: there is something and `overwrite` is False.
      OSError: it can't be written; nothing half-written stays.
      ValueError: an unknown format, or a word that the format can't hold.
    """
    path = os.fspath(path)
    if format not in FORMATS:
        raise ValueError(f"format={format!r} must be one of {', '.join(FORMATS)}")
    if os.path.exists(path) and (not overwrite or os.path.isdir(path)):
        raise FileExistsError(f"{path} exists; choose another file, or overwrite it")
    for word in vectors.words:
        if any(mark in word for mark in (" ", "\n", "\r", "\t")) or word[0] == "\ufeff":
            raise ValueError(
                f"the word {shown(word)} holds a space or a line end, which {format} has no way "
                "to write; rename it"
            )
    blocks = _binary(vectors) if format == "word2vec-binary" else _lines(vectors, format)
    partial = f"{path}.partial-{uuid.uuid4().hex[:8]}"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with gzip.open(partial, "wb", 6) if path.endswith(".gz") else open(partial, "wb") as file:
            if format != "glove":
                file.write(b"%d %d\n" % vectors.vectors.shape)
            for block in blocks:
                file.write(block)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def _lines(vectors: WordVectors, format: str) -> Iterator[bytes]:
    end = " \n" if format == "fasttext" else "\n"
    for first in range(0, len(vectors.words), _ROWS):
        block = vectors.vectors[first : first + _ROWS].astype("U")  # the fewest digits that do
        rows = zip(vectors.words[first : first + _ROWS], block.tolist(), strict=True)
        yield "".join(f"{word} {' '.join(row)}{end}" for word, row in rows).encode()


def _binary(vectors: WordVectors) -> Iterator[bytes]:
    for word, row in zip(vectors.words, vectors.vectors.astype("<f4"), strict=True):
        yield b"%b %b\n" % (word.encode(), row.tobytes())
