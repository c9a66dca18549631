"""Files of word vectors: exact round trips, what others wrote, and one line for what is broken."""

import gzip
import struct

import numpy as np
import pytest

from tests.checkpoints.faults import one_line
from tests.support import golden
from tfnlp.checkpoints import read_word_vectors, write_word_vectors
from tfnlp.checkpoints.word_vectors import FORMATS
from tfnlp.text import WordVectors


def make(count=5, size=4, seed=0):
    rng = np.random.default_rng(seed)
    table = (rng.standard_normal((count, size)) * 10.0 ** rng.integers(-9, 9, (count, 1))).astype(
        "float32"
    )
    table[0, :2] = 0.1, -0.0
    return WordVectors(["the", "北京", "naïve", "3", "a:b", "x", "y", "z"][:count], table)


def assert_same(got, want):
    assert got.words == want.words and got.vectors.dtype == np.float32
    np.testing.assert_array_equal(got.vectors.view("int32"), want.vectors.view("int32"))


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("format", FORMATS)
def test_round_trip(format, end, tmp_path):
    path, want = tmp_path / f"vectors{end}", make()
    write_word_vectors(path, want, format)
    assert_same(read_word_vectors(path), want)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == bool(end)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_text_is_as_the_formats_say(tmp_path):
    vectors = WordVectors(["a", "ü"], np.array([[0.1, -2], [1e-8, 3.5]], "float32"))
    want = {
        "word2vec": "2 2\na 0.1 -2.0\nü 1e-08 3.5\n",
        "fasttext": "2 2\na 0.1 -2.0 \nü 1e-08 3.5 \n",
        "glove": "a 0.1 -2.0\nü 1e-08 3.5\n",
    }
    for format, text in want.items():
        write_word_vectors(tmp_path / format, vectors, format)
        assert (tmp_path / format).read_text(encoding="utf-8") == text
    write_word_vectors(tmp_path / "binary", vectors, "word2vec-binary")
    first, second = struct.pack("<2f", 0.1, -2), struct.pack("<2f", 1e-8, 3.5)
    binary = b"2 2\na %b\n\xc3\xbc %b\n" % (first, second)
    assert (tmp_path / "binary").read_bytes() == binary


@pytest.mark.parametrize("name", ["word2vec.txt", "word2vec.bin"])
def test_what_gensim_wrote(name):
    folder = golden("word_vectors_gensim")
    got, model = read_word_vectors(folder / name), read_word_vectors(folder / "fasttext.bin")
    assert got.words == model.words and len(got.words) == 225
    np.testing.assert_allclose(got.vectors, model.vectors, rtol=0, atol=1e-6)
    assert got.subwords is None and got.counts is None


def test_a_model_of_fasttext_is_written_as_gensim_wrote_it(tmp_path):
    """Arguments aside: words, counts and n-grams to the bit, own vectors as far as a mean tells."""
    path = golden("word_vectors_gensim") / "fasttext.bin"
    model, wrote = read_word_vectors(path), path.read_bytes()
    write_word_vectors(tmp_path / "again", model, "fasttext-binary")
    data, got = (tmp_path / "again").read_bytes(), read_word_vectors(tmp_path / "again")
    assert got.words == model.words and got.counts.tolist() == model.counts.tolist()
    np.testing.assert_array_equal(got.subwords.table, model.subwords.table)
    np.testing.assert_allclose(got.vectors, model.vectors, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(got.vector("unheardof"), model.vector("unheardof"))
    size, dim = model.vectors.shape
    matrix = 64 + 28 + sum(len(word.encode()) + 10 for word in model.words) + 1 + 16
    for part in (slice(64, 76), slice(84, matrix)):  # between them all tokens, rare ones too
        assert data[part] == wrote[part]  # words and counts, the matrix's shape
    numbers = [np.frombuffer(x, "<f4", size * dim, matrix) for x in (data, wrote)]
    np.testing.assert_allclose(*numbers, rtol=0, atol=1e-5)
    assert len(data) == matrix + 4 * dim * (size + model.subwords.buckets) + 17 + 4 * dim * size


def test_odd_but_right(tmp_path):
    path = tmp_path / "odd"
    for text, words in (
        (b"2 3\r\na 1 2 3\r\nb 4 5 6\r\n", ["a", "b"]),  # line ends of Windows
        (b"2 3\na 1 2 3\nb 4 5 6", ["a", "b"]),  # none at the end
        (b"a 1 2 3\n. . . 4 5 6\n\n", ["a", ". . ."]),  # a word with spaces, as in GloVe's
        (b"2 3\na 1  2\t3\nb 4e0 5. +6\n", ["a", "b"]),
    ):
        path.write_bytes(text)
        got = read_word_vectors(path)
        assert got.words == words
        np.testing.assert_array_equal(got.vectors, [[1, 2, 3], [4, 5, 6]])
    # A binary file whose numbers are printable characters.
    path.write_bytes(b"1 2\n0  kA[ kA[\n")
    assert read_word_vectors(path).vectors.tolist() == [[5.444245568828211e16] * 2]
    # No line ends between the rows, as gensim writes.
    rows = [b"a " + struct.pack("<2f", 1e-3, 2), b"b " + struct.pack("<2f", 3, 4.7)]
    path.write_bytes(b"2 2\n" + b"".join(rows))
    assert read_word_vectors(path).words == ["a", "b"]


@pytest.mark.parametrize("head", [b"", b"6 2\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf6 2\n"])
def test_words_that_are_left_out_and_lines_of_others(head, tmp_path):
    """As gensim has it: of equal words the first counts; a mark is no part of the first word."""
    rows = [b". . . 0.5 0.1", b"a\t1\t2", b"b 3 4", b"a 5 6", b"caf\xe9 7 8", b"7 9 10"]
    (tmp_path / "file").write_bytes(head + b"\n".join(rows) + b"\n")
    with pytest.warns(UserWarning) as said:
        got = read_word_vectors(tmp_path / "file")
    assert got.words == [". . .", "a", "b", "7"]
    want = np.array([[0.5, 0.1], [1, 2], [3, 4], [9, 10]], "float32")
    np.testing.assert_array_equal(got.vectors, want)
    first, second = (str(warning.message) for warning in said)
    place = 4 + head.endswith(b"\n")
    assert first.endswith(f"that are there before: 1, the first 'a', line {place}")
    assert f"that are not UTF-8: 1, the first 'caf\ufffd', line {place + 1}" in second
    for limit in (1, 3):  # nothing is left out of these
        got = read_word_vectors(tmp_path / "file", limit)
        assert got.words == [". . .", "a", "b"][:limit] and len(got.vectors) == limit


def test_a_part_of_a_binary_file_and_words_that_are_left_out_of_it(tmp_path):
    rows = [
        word + struct.pack("<2f", n, -n) for n, word in enumerate((b"a ", b"\xe9 ", b"a ", b"b "))
    ]
    (tmp_path / "file").write_bytes(b"4 2\n" + b"".join(rows))
    with pytest.warns(UserWarning, match="left out"):
        got = read_word_vectors(tmp_path / "file")
    assert got.words == ["a", "b"] and got.vectors.tolist() == [[0, 0], [3, -3]]
    assert read_word_vectors(tmp_path / "file", 1).words == ["a"]


def test_a_part_of_a_fasttext_model_and_a_word_that_is_not_utf_8(tmp_path):
    data = golden("word_vectors_gensim").joinpath("fasttext.bin").read_bytes()
    whole = read_word_vectors(golden("word_vectors_gensim") / "fasttext.bin")
    some = read_word_vectors(golden("word_vectors_gensim") / "fasttext.bin", 20)
    assert some.words == whole.words[:20] and some.subwords is not None
    np.testing.assert_array_equal(some.counts, whole.counts[:20])
    (tmp_path / "other.bin").write_bytes(data.replace(b"she\0", b"\xe9he\0", 1))
    with pytest.warns(UserWarning, match="1 words are not UTF-8"):
        got = read_word_vectors(tmp_path / "other.bin")
    place = whole.words.index("she")
    assert got.words == whole.words[:place] + whole.words[place + 1 :]
    np.testing.assert_array_equal(got.vectors, np.delete(whole.vectors, place, 0))


def fault(path):
    message = one_line("", ValueError, read_word_vectors, path)
    assert str(path) in message
    return message


BROKEN = {
    b"": "holds no word vectors",
    b"hello world\n": "first line is 'hello world'",
    b"99999999 300\na 1 2\n": "more than the file has room for",
    b"2 3\na 1 2 3\n": "ends after 1 of the 2 words",
    b"1 3\na 1 2 3\nb 1 2 3\n": "line 3 is one too many",
    b"2 3\na 1 2 3\nb 1 2\n": "line 3 has 2 fields behind its word, 'b 1 2'; expected 3 numbers",
    b"2 3\na 1 2 3\nb 1 nan 3\n": "line 3 holds a number that is not finite",
    b"2 1\nab " + struct.pack("<f", 1.5): "ends within word 2 of the 2",
    b"1 1\nab " + struct.pack("<2f", 1.5, 1.7): "goes on behind the 1 words",
    b"1 1\n\xff\xfe " + struct.pack("<f", 1.5): "all 1 words are not UTF-8",
    b"1 2\nab " + struct.pack("<2f", 1.5, np.inf): "word 1 holds a number that is not finite",
}


@pytest.mark.parametrize("data", BROKEN)
def test_broken_files(data, tmp_path):
    (tmp_path / "file").write_bytes(data)
    assert BROKEN[data] in fault(tmp_path / "file")
    (tmp_path / "file").write_bytes(gzip.compress(data))
    found = fault(tmp_path / "file")
    assert BROKEN[data] in found or "room" in BROKEN[data]  # how much it holds is not known


def test_gzip_that_ends_too_early(tmp_path):
    write_word_vectors(tmp_path / "all.gz", make())
    (tmp_path / "cut.gz").write_bytes((tmp_path / "all.gz").read_bytes()[:-30])
    assert "is damaged" in fault(tmp_path / "cut.gz")


@pytest.mark.parametrize("size", [0, 40, 100, 2000, -5])
def test_fasttext_that_ends_too_early(size, tmp_path):
    data = golden("word_vectors_gensim").joinpath("fasttext.bin").read_bytes()
    # What follows the input matrix is not read.
    rows = 325 * 6 * 4
    end = data.index(struct.pack("<2q", 325, 6)) + 16 + rows
    cut = data[: size if size >= 0 else end + size]
    (tmp_path / "cut.bin").write_bytes(cut)
    assert fault(tmp_path / "cut.bin")
    (tmp_path / "whole.bin").write_bytes(data[:end])
    assert len(read_word_vectors(tmp_path / "whole.bin").words) == 225


def test_fasttext_that_is_of_another_kind(tmp_path):
    data = bytearray(golden("word_vectors_gensim").joinpath("fasttext.bin").read_bytes())
    place = data.index(struct.pack("<2q", 325, 6))
    for change, said in (
        ((4, struct.pack("<i", 99)), "version 99"),
        ((place - 1, b"\x01"), "quantized"),
        ((place, struct.pack("<q", 324)), "matrix of 324 x 6"),
        ((8 + 56 + 20, struct.pack("<q", 7)), "pruned"),
        ((8 + 56 + 4, struct.pack("<i", 224)), "states 224 words, but lists 225"),
        ((data.index(b"she\0"), b"the"), "other.bin: words has 'the' twice"),
    ):
        other = data.copy()
        other[change[0] : change[0] + len(change[1])] = change[1]
        (tmp_path / "other.bin").write_bytes(other)
        assert said in fault(tmp_path / "other.bin")


def test_fasttext_of_large_numbers_has_finite_vectors(tmp_path):
    """Rows that are finite, but whose sum is not."""
    data = bytearray(golden("word_vectors_gensim").joinpath("fasttext.bin").read_bytes())
    place = data.index(struct.pack("<2q", 325, 6)) + 16
    rows = np.frombuffer(data, "<f4", 325 * 6, place).reshape(325, 6)
    words = read_word_vectors(golden("word_vectors_gensim") / "fasttext.bin").words
    for value, said in ((3e38, f"the vector of the word {words[0]!r}, a mean of rows, is not"),
                        (np.nan, f"not finite, of the word {words[0]!r}")):  # fmt: skip
        changed = rows.copy()
        changed[0, 3] = value
        changed[225:, 3] = 3e38  # the n-grams
        data[place : place + changed.nbytes] = changed.tobytes()
        (tmp_path / "large.bin").write_bytes(data)
        assert said in fault(tmp_path / "large.bin")


def test_nothing_half_written_stays(tmp_path, monkeypatch):
    write_word_vectors(tmp_path / "kept", make(3))
    with pytest.raises(FileExistsError, match="exists; choose another file"):
        write_word_vectors(tmp_path / "kept", make())

    def full(*_):
        yield b"a 1 "
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tfnlp.checkpoints.word_vectors._lines", full)
    for name in ("kept", "new"):
        with pytest.raises(OSError, match="No space left"):
            write_word_vectors(tmp_path / name, make(), overwrite=True)
    assert_same(read_word_vectors(tmp_path / "kept"), make(3))
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("word", ["a b", "a\nb", "\ufeffa"])
def test_words_that_can_not_be_written(word, tmp_path):
    vectors = WordVectors([word], np.ones((1, 2), "float32"))
    for format in FORMATS:
        with pytest.raises(ValueError, match="which .* can't hold"):
            write_word_vectors(tmp_path / "file", vectors, format)
    with pytest.raises(ValueError, match="format='npy' must be one of word2vec"):
        write_word_vectors(tmp_path / "file", make(), "npy")
