import gzip
import os
import random

import pytest

from tfnlp.data import read_documents, split_documents
from tfnlp.data.texts import documents_of

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
    empty = write(tmp_path / "empty", "")
    assert list(read_documents([empty, odd])) == [["E.", "F."]]
    assert list(read_documents(f"{tmp_path}/*.txt")) == [["A.", "B."], ["C.", "D."], ["E.", "F."]]
    os.mkdir(tmp_path / "deep")
    write(tmp_path / "deep" / "c.txt", "G.\nH.\n")
    assert list(read_documents(f"{tmp_path}/**/[bc].txt")) == [["C.", "D."], ["G.", "H."]]


def test_home_folder_and_gzip(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "a.txt.gz", gzip.compress(LINES.encode()))
    assert list(read_documents("~/a.txt.gz")) == DOCUMENTS


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_mark(tmp_path, end, mark):
    path = write(tmp_path / "a.txt", mark + LINES.replace("\n", end))
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
    for sources, layout, error, message in (
        ([good, f"{tmp_path}/missing.txt"], "auto", FileNotFoundError, "missing.txt"),
        ([good, f"{tmp_path}/*.text"], "auto", FileNotFoundError, r"\*\.text"),
        (str(tmp_path), "auto", IsADirectoryError, str(tmp_path)),
        (good, "verse", ValueError, "'verse'"),
        ([], "auto", ValueError, "sources"),
    ):
        with pytest.raises(error, match=message):
            read_documents(sources, layout)


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("a.txt", b" \n\r\n\t\n", ValueError, "a.txt"),
        ("a.txt", "Hello.\n".encode("utf-16"), ValueError, "a.txt is UTF-16 text; convert"),
        ("a.txt", "Hello.\n".encode("utf-16-le"), ValueError, "a.txt holds NUL bytes"),
        ("a.txt", b"One.\nT\xffwo.\n", ValueError, "a.txt.* 0xff at byte 6"),
        ("a.gz", gzip.compress(RANDOM, mtime=0)[:-900], OSError, "a.gz"),
        ("a.gz", b"One.\n", OSError, "a.gz"),
    ],
)
def test_bad_files(tmp_path, name, content, error, message):
    path = write(tmp_path / name, content)
    with pytest.raises(error, match=message) as caught:
        list(read_documents(path))
    assert "\n" not in str(caught.value)


MARKED = (
    "One came.\nTwo came.\n<|endoftext|>\nThree came.\n"
    "Four came. <|endoftext|>Five came.\nSix came.\n"
)


@pytest.mark.parametrize("layout", ["lines", "prose", "auto"])
def test_the_mark_between_documents_ends_them(layout, tmp_path):
    want = [["One came.", "Two came."], ["Three came.", "Four came."], ["Five came.", "Six came."]]
    path = write(tmp_path / "a.txt", MARKED)
    assert list(read_documents(path, layout)) == want
    assert list(documents_of([MARKED, "Seven came."], layout)) == [*want, ["Seven came."]]
    assert list(documents_of([["One came.", "Two came.<|endoftext|>", "x"]])) == [want[0], ["x"]]
    words = write(tmp_path / "b.txt", "One\na\n\nTwo\n<|endoftext|>\nThree\n")
    assert list(read_documents(words, "words")) == [["One a", "Two"], ["Three"]]


@pytest.mark.parametrize("place", [0, 5, 70_000])
def test_a_nul_in_a_text_is_left_out(place, tmp_path):
    lines = [f"Sentence number {n} ." for n in range(5000)]
    text = "\n".join(lines)
    path = write(tmp_path / "a.txt", text[:place] + "\0" + text[place:])
    assert [s for document in read_documents(path, "lines") for s in document] == lines


@pytest.mark.parametrize("sizes", [[9] * 40, [1, 1, 2, 50, 60, 70], [500, 3]])
@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.9])
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
