"""Reading word2vec's text and binary files and GloVe's, and saying where they are broken."""

import gzip
import os
import re
import warnings
import zlib

import numpy as np

from tfnlp.convert.formats.tensors import shown

_MOST = 1032  # bytes that gzip can make of one
_LONGEST = 1 << 26  # bytes of a line; more is no line
_BLOCK = 1 << 20
_HEADER = re.compile(rb"\s*(\d{1,12})\s+(\d{1,12})\s*")


class Source:
    """A file, unpacked if it was packed with gzip, with as many of its next bytes as one likes.

    Attributes:
      path: of the file.
      limit: bytes that it may hold at most.

    Raises:
      FileNotFoundError: there is no such file.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        if not os.path.isfile(self.path):
            problem = "is a folder" if os.path.isdir(self.path) else "does not exist"
            raise FileNotFoundError(f"file of word vectors {self.path} {problem}")
        self._file = open(self.path, "rb")
        self.limit = os.path.getsize(self.path)
        packed = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        if packed:
            self._file, self.limit = gzip.GzipFile(fileobj=self._file), self.limit * _MOST
        self._ahead, self._at = b"", 0  # bytes read, and how many of them were handed out

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def rewind(self):
        """Back to the beginning."""
        self._file.seek(0)
        self._ahead, self._at = b"", 0

    def peek(self, size):
        """The next `size` bytes, or fewer at the end, which stay."""
        while len(self._ahead) - self._at < size and self._fill(size):
            pass
        return self._ahead[self._at : self._at + size]

    def read(self, size):
        """The next `size` bytes, or fewer at the end."""
        data = self.peek(size)
        self._at += len(data)
        return data

    def until(self, mark, longest=_LONGEST):
        """The bytes before the next `mark`, one byte, which is passed over; all that is left if
        there is none; None at the end."""
        searched = 0
        while (place := self._ahead.find(mark, self._at + searched)) < 0:
            searched = len(self._ahead) - self._at
            if searched > longest or not self._fill(_BLOCK):
                return self.read(searched) or None
        data, self._at = self._ahead[self._at : place], place + 1
        return data

    def lines(self):
        """The lines that are left, without their ends."""
        while (line := self.until(b"\n")) is not None:
            if len(line) > _LONGEST:
                raise ValueError(f"{self.path} has a line of more than {_LONGEST} bytes")
            yield line

    def _fill(self, size):
        """Whether there were more bytes to read ahead."""
        more = self._more(max(_BLOCK, size))
        self._ahead, self._at = self._ahead[self._at :] + more, 0
        return bool(more)

    def _more(self, size):
        try:
            return self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.path} is broken: {error}; get it once more") from error


def size_of_header(line):
    """(V, D) of a first line that states them, or None."""
    match = _HEADER.fullmatch(line)
    return (int(match[1]), int(match[2])) if match else None


def read_text(source):
    """Words and vectors of lines of text, with or without a header; see `read_word_vectors`."""
    path, header = source.path, size_of_header(source.until(b"\n"))
    source.rewind()
    first = 1
    if header:
        count, size = _possible(source, header, 2)
        source.until(b"\n")
        first = 2
    else:
        count, size = _measure(source)
    words, vectors = {}, np.empty([count, size], np.float32)
    with warnings.catch_warnings():
        # What numpy says of numbers that end too early.
        warnings.simplefilter("error", DeprecationWarning)
        for number, line in enumerate(source.lines(), start=first):
            row = number - first
            if not line.strip():
                if row < count:
                    raise ValueError(
                        f"{path}, line {number} is empty; expected a word and {size} numbers"
                    )
                continue
            if row == count:
                raise ValueError(
                    f"{path} has more than the {count} words that its first line states; line "
                    f"{number} is one too many"
                )
            word, values = _row(path, number, line.rstrip(b"\r"), size)
            if words.setdefault(word, row) != row:
                raise ValueError(
                    f"{path} has the word {shown(word)} twice, in lines {words[word] + first} and "
                    f"{number}; remove one"
                )
            vectors[row] = values
    if len(words) < count:
        raise ValueError(
            f"{path} ends after {len(words)} of the {count} words that its first line states; get "
            "it once more"
        )
    _check_finite(path, vectors, lambda row: f"line {row + first}")
    return list(words), vectors


def _measure(source):
    """(V, D) of a file without a header, which is read once for it."""
    line = source.until(b"\n")
    size = len(line.split()) - 1
    source.rewind()
    count = blank = 0
    for line in source.lines():
        blank = 0 if line.strip() else blank + 1
        count += 1
    source.rewind()
    return count - blank, size  # empty lines at the end are none


def _row(path, number, line, size):
    """The word and the numbers of a line."""
    word, _, numbers = line.partition(b" ")
    values = _numbers(numbers)
    if values is None or len(values) != size:
        fields = line.rstrip().rsplit(None, size)
        values = _numbers(b" ".join(fields[1:])) if len(fields) > size else None
        if values is None or len(values) != size:  # nor is it a word with a space in it
            raise ValueError(f"{path}, line {number} {_fault(line, size)}")
        word = fields[0]
    if not word:
        raise ValueError(f"{path}, line {number} begins with a space; expected a word")
    return _decoded(word, f"{path}, line {number}"), values


def _numbers(data):
    """float32 of numbers with space between, or None if there is anything else."""
    try:
        return np.fromstring(data, np.float32, sep=" ")
    except (ValueError, DeprecationWarning):
        return None


def _fault(line, size):
    """What is wrong with a line."""
    fields = line.split()[1:]
    if len(fields) < size:
        return f"has {len(fields)} numbers behind its word; expected {size}"
    if len(fields) > size:
        return f"has {len(fields)} fields behind its word; expected {size} numbers"
    for field in fields:
        try:
            float(field)
        except ValueError:
            return f"has {shown(field.decode(errors='replace'))} where a number was expected"
    return f"is not a word and {size} numbers"


def read_binary(source):
    """Words and vectors of word2vec's binary file; see `read_word_vectors`."""
    path = source.path
    count, size = _possible(source, size_of_header(source.until(b"\n")), 4)
    words, vectors = {}, np.empty([count, size], np.float32)
    for row in range(count):
        if source.peek(1) == b"\n":  # of the vector before
            source.read(1)
        word = source.until(b" ", 1 << 16)
        data = b"" if word is None else source.read(4 * size)
        if len(data) < 4 * size:
            raise ValueError(
                f"{path} ends within word {row + 1} of the {count} that its first line states; get "
                "it once more"
            )
        word = _decoded(word, f"{path}, word {row + 1}")
        if not word:
            raise ValueError(f"{path}, word {row + 1} is empty")
        if words.setdefault(word, row) != row:
            raise ValueError(
                f"{path} has the word {shown(word)} twice, as words {words[word] + 1} and {row + 1}"
            )
        vectors[row] = np.frombuffer(data, "<f4")
    if source.read(2).strip():
        raise ValueError(
            f"{path} goes on behind the {count} words that its first line states; is it {size} "
            "numbers a word?"
        )
    _check_finite(path, vectors, lambda row: f"word {row + 1}")
    return list(words), vectors


def _possible(source, header, bytes_a_number):
    """(V, D) if a file can hold as many numbers."""
    count, size = header
    if not (count and size):
        raise ValueError(
            f"{source.path}, line 1 states {count} words of {size} numbers; expected 1 or more"
        )
    if count * size * bytes_a_number > source.limit:
        raise ValueError(
            f"{source.path}, line 1 states {count} words of {size} numbers, more than the file has "
            "room for; is it cut off?"
        )
    return count, size


def _decoded(word, where):
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where} has the word {shown(word[:50])}, which is not UTF-8; convert the file"
        ) from error


def _check_finite(path, vectors, where):
    """Raises ValueError for what is not a number or infinite; row by row, to stay small."""
    for first in range(0, len(vectors), 65536):
        finite = np.isfinite(vectors[first : first + 65536]).all(1)
        if not finite.all():
            row = first + int(np.flatnonzero(~finite)[0])
            raise ValueError(f"{path}, {where(row)} holds a number that is not finite")
