import gzip

import pytest

from tfnlp.data import read_conllu


def row(number, word, upos, xpos):
    return "\t".join([number, word, "_", upos, xpos, *"_____"])


CONLLU = "\n".join(
    [
        "# text = He didn't, more less.",
        row("1", "He", "PRON", "PRP"),
        row("2-3", "didn't", "_", "_"),
        row("2", "did", "AUX", "VBD"),
        row("3", "n't", "PART", "RB"),
        row("3.1", "go", "_", "_"),
        "",
        "",
        "# sent_id = 2",
        row("1", "10 000", "NUM", "CD"),
        row("2", "#", "SYM", "NFP"),
    ]
)
SENTENCES = [(["He", "did", "n't"], ["PRON", "AUX", "PART"]), (["10 000", "#"], ["NUM", "SYM"])]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])  # a last blank line, or none
def test_conllu_gives_the_syntactic_words(tmp_path, end):
    path = write(tmp_path / "a.conllu", CONLLU + end)
    assert read_conllu(path) == SENTENCES
    assert [tags for _, tags in read_conllu(path, "xpos")] == [["PRP", "VBD", "RB"], ["CD", "NFP"]]


def test_conllu_with_other_line_ends_and_packed(tmp_path):
    packed = gzip.compress(CONLLU.replace("\n", "\r\n").encode())
    assert read_conllu(write(tmp_path / "a.gz", packed)) == SENTENCES


@pytest.mark.parametrize(
    "content, message",
    [
        ("1\tHe\n", "line 1: expected the ten columns of CoNLL-U between tabs; got 2"),
        ("\n" + row("1", "He", "_", "PRP"), "line 2: the word 'He' has no upos"),
        ("# nothing\n\n", "no examples in"),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_conllu(write(tmp_path / "a.txt", content))


def test_wrong_paths_and_columns(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file: .*absent"):
        read_conllu(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_conllu(tmp_path)
    with pytest.raises(ValueError, match="column must be one of upos, xpos; got 'pos'"):
        read_conllu(tmp_path / "absent", "pos")
    packed = gzip.compress(CONLLU.encode() * 1000)
    with pytest.raises(OSError, match="damaged or truncated gzip"):
        read_conllu(write(tmp_path / "a.gz", packed[:-9]))
