import gzip
import os
import random

import pytest

from tests.data.tfds_sets import prepare
from tfnlp import books
from tfnlp.data import read_documents, split_documents

LINES = "The rain fell.\nIt was cold.\n\nNight came.\nShe slept.\nHe left.\n"
DOCUMENTS = [["The rain fell.", "It was cold."], ["Night came.", "She slept.", "He left."]]
RANDOM = random.Random(0).randbytes(4000)  # does not compress


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_one_path_many_paths_and_globs_keep_the_order(tmp_path):
    a = write(tmp_path / "a.txt", "A.\nB.\n")
    b = write(tmp_path / "b.txt", "C.\nD.\n")
    odd = write(tmp_path / "odd[1].txt", "E.\nF.\n")
    os.mkdir(tmp_path / "folder.txt")  # a glob passes over folders
    assert list(read_documents(a)) == [["A.", "B."]]
    assert list(read_documents(tmp_path / "a.txt")) == [["A.", "B."]]
    assert list(read_documents([b, a])) == [["C.", "D."], ["A.", "B."]]
    assert list(read_documents(odd)) == [["E.", "F."]]
    assert list(read_documents(f"{tmp_path}/*.txt")) == [["A.", "B."], ["C.", "D."], ["E.", "F."]]
    os.mkdir(tmp_path / "deep")
    write(tmp_path / "deep" / "c.txt", "G.\nH.\n")
    assert list(read_documents(f"{tmp_path}/**/[bc].txt")) == [["C.", "D."], ["G.", "H."]]


def test_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a.txt", LINES)
    assert list(read_documents("~/a.txt")) == DOCUMENTS


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_mark(tmp_path, end, mark):
    path = write(tmp_path / "a.txt", mark + LINES.replace("\n", end))
    assert list(read_documents(path)) == DOCUMENTS


def test_gzip(tmp_path):
    path = write(tmp_path / "a.txt.gz", gzip.compress(LINES.encode()))
    assert list(read_documents(path)) == DOCUMENTS


def test_layout_is_decided_for_each_file_or_given(tmp_path):
    lines = write(tmp_path / "lines.txt", LINES)
    prose = write(tmp_path / "prose.txt", "It was a\nlong way. He\nwent.\n\nShe did\nnot.\n")
    assert list(read_documents([lines, prose])) == [
        *DOCUMENTS,
        ["It was a long way.", "He went.", "She did not."],
    ]
    assert list(read_documents(prose, "lines")) == [
        ["It was a", "long way. He", "went."],
        ["She did", "not."],
    ]
    assert list(read_documents(lines, "prose")) == [DOCUMENTS[0] + DOCUMENTS[1]]


def test_layout_sample_is_not_lost(tmp_path):
    sentences = [f"Sentence {i}." for i in range(5000)]
    path = write(tmp_path / "a.txt", "\n".join(sentences))
    assert list(read_documents(path)) == [sentences]


def test_reading_streams(tmp_path):
    good = "".join(f"Sentence {i}.\nIt ends.\n\n" for i in range(5000)).encode()
    path = write(tmp_path / "a.txt", good + b"caf\xe9.\n")
    documents = read_documents(path)
    assert [next(documents)[0] for _ in range(4000)][-1] == "Sentence 3999."
    with pytest.raises(ValueError, match=f"invalid byte 0xe9 at byte {len(good) + 3};") as caught:
        list(documents)
    assert path in str(caught.value)


def test_wrong_names_are_reported_at_once(tmp_path):
    good = write(tmp_path / "a.txt", LINES)
    with pytest.raises(FileNotFoundError, match="no such file: .*missing.txt"):
        read_documents([good, f"{tmp_path}/missing.txt"])
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.text"):
        read_documents([good, f"{tmp_path}/*.text"])
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_documents(str(tmp_path))
    with pytest.raises(ValueError, match="one of auto, lines, prose, words; got 'verse'"):
        read_documents(good, "verse")
    with pytest.raises(ValueError, match="sources is empty"):
        read_documents([])


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("a.txt", b"", ValueError, "no text in .*a.txt"),
        ("a.txt", b" \n\r\n\t\n", ValueError, "no text in .*a.txt"),
        ("a.txt", b"text\n" * 9 + b"\x7fELF\x00\x01", ValueError, "a.txt holds NUL bytes"),
        ("a.txt", "Hello.\n".encode("utf-16"), ValueError, "a.txt holds NUL bytes"),
        ("a.txt", b"One.\nT\xffwo.\n", ValueError, "a.txt is not UTF-8.* 0xff at byte 6;"),
        ("a.gz", gzip.compress(RANDOM, mtime=0)[:-900], OSError, "a.gz is a damaged or trunc"),
        ("a.gz", gzip.compress(b"One.\n" * 9, mtime=0)[:-4], OSError, "a.gz is a damaged or trunc"),
        ("a.gz", b"One.\n", OSError, "a.gz is a damaged or trunc"),
        ("a.gz", gzip.compress(b"", mtime=0)[:-3], OSError, "a.gz is a damaged or trunc"),
    ],
)
def test_bad_files(tmp_path, name, content, error, message):
    path = write(tmp_path / name, content)
    with pytest.raises(error, match=message) as caught:
        list(read_documents(path))
    assert "\n" not in str(caught.value)


def test_one_empty_file_among_others_is_fine(tmp_path):
    paths = [write(tmp_path / "a.txt", ""), write(tmp_path / "b.txt", LINES)]
    assert list(read_documents(paths)) == DOCUMENTS


@pytest.mark.parametrize("sizes", [[9] * 40, [1, 1, 2, 50, 60, 70], [30, 30], [1, 100], [500, 3]])
@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3, 0.9])
def test_split_holds_out_whole_documents(sizes, fraction):
    documents = [[f"{d} {s}." for s in range(size)] for d, size in enumerate(sizes)]
    splits = [split_documents(iter(documents), fraction, seed) for seed in range(6)]
    for train, valid in splits:
        assert train and valid
        assert sorted(train + valid) == sorted(documents)
        assert train == [d for d in documents if d in train]  # the order is kept
        held = sum(map(len, valid))
        # As much as was asked for, unless that would leave nothing to train on.
        assert held >= fraction * sum(sizes) or len(train) == 1
    assert splits[0] == split_documents(documents, fraction, 0)
    if len(set(sizes)) == 1 and len(sizes) > 2 and fraction < 0.9:
        assert any(split != splits[0] for split in splits)
        assert all(sum(map(len, v)) <= fraction * sum(sizes) + sizes[0] for _, v in splits)


def test_split_cuts_the_tail_of_a_single_document():
    document = [f"{s}." for s in range(40)]
    assert split_documents([document], 0.1, 0) == ([document[:36]], [document[36:]])
    assert split_documents([[], document[:2]], 0.01, 0) == ([["0."]], [["1."]])
    assert split_documents([document[:2]], 0.99, 0) == ([["0."]], [["1."]])


def test_split_errors():
    for fraction in (0, 1, -0.1, 2):
        with pytest.raises(ValueError, match="held_out_fraction must lie between 0 and 1"):
            split_documents([["A.", "B."]], fraction, 0)
    with pytest.raises(ValueError, match="hold 1 sentence"):
        split_documents([["A."]], 0.1, 0)


def test_the_book_by_its_name():
    documents = list(read_documents("book:the_secret_garden"))
    assert documents == list(read_documents(books.path()))
    assert documents[0] == ["THE SECRET GARDEN"]
    assert documents[1][:2] == ["CHAPTER I", "THERE IS NO ONE LEFT"]
    with pytest.raises(ValueError, match="no book 'x'; choose from the_secret_garden"):
        read_documents("book:x")


def test_split_of_the_book():
    train, valid = split_documents(read_documents("book:the_secret_garden"), 0.05, 1)
    total = sum(map(len, train + valid))
    assert 0.05 * total <= sum(map(len, valid)) <= 0.1 * total


@pytest.fixture(scope="module")
def tfds_folder(tmp_path_factory):
    """A folder with three prepared TFDS data sets, made offline."""
    tfds = pytest.importorskip("tensorflow_datasets")
    folder = str(tmp_path_factory.mktemp("tfds"))
    import tensorflow as tf

    text = tfds.features.Text()
    articles = [f"Article {i}. It has\nlines.\n\n\n\nAnd parts." for i in range(20)]
    prepare(
        folder,
        "tfnlp_articles",
        {"author": text, "label": tf.int64, "text": text},
        [{"author": "Nobody", "label": i, "text": articles[i]} for i in range(20)],
    )
    prepare(
        folder,
        "tfnlp_reviews",
        {"stars": tf.int64, "words": tfds.features.Sequence(tf.string), "body": tf.string},
        [{"stars": 1, "words": ["a"], "body": body} for body in ("Bad. Sad.", " ", "Good!")],
    )
    prepare(folder, "tfnlp_numbers", {"x": tf.int64}, [{"x": 1}])
    prepare(folder, "tfnlp_bytes", {"text": tf.string}, [{"text": "ok."}, {"text": b"\xff."}])
    return folder


@pytest.fixture
def tfds_set(tfds_folder, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", tfds_folder)
    return tfds_folder


def test_tfds_examples_are_documents(tfds_set):
    expected = [[f"Article {i}.", "It has lines.", "And parts."] for i in range(20)]
    for source in ("tfds:tfnlp_articles", "tfds:tfnlp_articles:1.0.0:test"):
        documents = list(read_documents(source))
        assert sorted(documents) == sorted(expected)
        assert documents == list(read_documents(source))  # in the same order again
    assert len(list(read_documents("tfds:tfnlp_articles:train[:25%]"))) == 5
    lines = list(read_documents("tfds:tfnlp_articles", layout="lines"))
    assert sorted(lines)[0] == ["Article 0. It has", "lines.", "And parts."]


def test_tfds_first_string_feature_where_none_is_called_text(tfds_set):
    assert sorted(read_documents("tfds:tfnlp_reviews")) == [["Bad.", "Sad."], ["Good!"]]


def test_tfds_beside_files(tfds_set, tmp_path):
    path = write(tmp_path / "a.txt", LINES)
    documents = list(read_documents([path, "tfds:tfnlp_reviews:test"]))
    assert documents[:2] == DOCUMENTS and len(documents) == 4


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("tfds:tfnlp_nothing", FileNotFoundError, "TFDS knows no data set 'tfnlp_nothing'"),
        ("tfds:imdb_reviews", FileNotFoundError, "'imdb_reviews' is not prepared in "),
        ("tfds:tfnlp_articles:dev", ValueError, "no split 'dev'; choose from t"),
        ("tfds:tfnlp_articles:7.0.0", (ValueError, FileNotFoundError), "tfnlp_articles:7.0.0"),
        ("tfds:tfnlp_numbers", ValueError, "no string feature; its features are x"),
        ("tfds:", ValueError, "expected tfds:NAME"),
    ],
)
def test_tfds_errors_come_at_once_in_one_line(tfds_set, source, error, message):
    with pytest.raises(error, match=message) as caught:
        read_documents(source)
    assert "\n" not in str(caught.value)


def test_tfds_bytes_that_are_no_text(tfds_set):
    with pytest.raises(ValueError, match="tfds:tfnlp_bytes: example [01] is not UTF-8 text"):
        list(read_documents("tfds:tfnlp_bytes"))
