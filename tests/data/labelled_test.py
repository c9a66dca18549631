import gzip

import pytest

from tests.support import shared_data
from tfnlp.data import (
    index_labels,
    index_words,
    read_conllu,
    read_labelled_text,
    word_ids,
)


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


def test_labelled_text(tmp_path):
    path = write(tmp_path / "a.txt", "1 A fine film .\n\n0  so-so 2\u00a01/2 \nvery_bad no\n")
    assert read_labelled_text(path) == [
        (["A", "fine", "film", "."], "1"),
        (["so-so", "2\u00a01/2"], "0"),
        (["no"], "very_bad"),
    ]


@pytest.mark.parametrize(
    "reader, content, message",
    [
        (read_conllu, "1\tHe\n", "line 1: expected the ten columns of CoNLL-U between tabs; got 2"),
        (read_conllu, "\n" + row("1", "He", "_", "PRP"), "line 2: the word 'He' has no upos"),
        (read_conllu, "# nothing\n\n", "no examples in"),
        (read_conllu, b"\xff\xfe", "is not UTF-8 text"),
        (read_labelled_text, "1 good\n0\n", "line 2: expected a label and words between spaces"),
        (read_labelled_text, "", "no sentences in"),
    ],
)
def test_wrong_files(tmp_path, reader, content, message):
    with pytest.raises(ValueError, match=message):
        reader(write(tmp_path / "a.txt", content))


def test_wrong_paths_and_columns(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file: .*absent"):
        read_conllu(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_labelled_text(tmp_path)
    with pytest.raises(ValueError, match="column must be one of upos, xpos; got 'pos'"):
        read_conllu(tmp_path / "absent", "pos")
    packed = gzip.compress(b"1 good\n" * 1000)
    with pytest.raises(OSError, match="damaged or truncated gzip"):
        read_labelled_text(write(tmp_path / "a.gz", packed[:-9]))


def test_ids_of_words_and_labels():
    sentences = [["The", "cat", "the"], ["a", "dog"], ["the", "dog"]]
    assert index_words(sentences) == {"dog": 2, "the": 3, "The": 4, "a": 5, "cat": 6}
    index = index_words(iter(sentences), min_count=2, lowercase=True)
    assert index == {"the": 2, "dog": 3}
    assert word_ids(["THE", "dog", "cat"], index, lowercase=True) == [2, 3, 1]
    assert word_ids(["THE", "dog"], index) == [1, 3]
    assert index_labels(["b", "a", "b"]) == {"a": 0, "b": 1}
    with pytest.raises(ValueError, match="min_count must be 1 or more; got 0"):
        index_words(sentences, min_count=0)


def test_english_web_treebank():
    dev = read_conllu(shared_data("tag/ud_ewt/en_ewt-ud-dev.conllu"))
    train = read_conllu(shared_data("tag/ud_ewt/en_ewt-ud-train.conllu.gz"))
    assert (len(train), len(dev)) == (12544, 2001)  # as the treebank's stats.xml has it
    assert sum(len(words) for words, _ in train) == 204577
    assert len(index_labels(tag for _, tags in train for tag in tags)) == 17  # universal tags
    assert dev[0][0] == ["From", "the", "AP", "comes", "this", "story", ":"]
    assert dev[0][1] == ["ADP", "DET", "PROPN", "VERB", "DET", "NOUN", "PUNCT"]
