import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tfnlp.text import WordIndex, read_words, split_words, train_words, write_words


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_train():
    sentences = ["the cat saw the dog .", "", "A\tdog  ran .", ".  "]
    assert train_words(sentences) == [
        *["<S>", "</S>", "<UNK>"],
        *[".", "dog", "the", "A", "cat", "ran", "saw"],
    ]
    assert train_words(sentences, max_size=5) == ["<S>", "</S>", "<UNK>", ".", "dog"]
    assert train_words(sentences, min_count=2) == ["<S>", "</S>", "<UNK>", ".", "dog", "the"]
    assert train_words(sentences, min_count=3) == ["<S>", "</S>", "<UNK>", "."]
    assert train_words(iter(["b a"]), 100) == ["<S>", "</S>", "<UNK>", "a", "b"]
    assert train_words(["<UNK> <UNK> a <S> </S>"]) == ["<S>", "</S>", "<UNK>", "a"]


@pytest.mark.parametrize(
    ("sentences", "options", "message"),
    [
        ("a b", {}, "sentences"),
        (["a", b"b"], {}, r"sentences\[1\]"),
        ([" ", "<S>"], {}, "sentences"),
        (["a"], {"max_size": 3}, "max_size"),
        (["a b a"], {"min_count": 3}, "min_count=3"),
    ],
)
def test_train_errors(sentences, options, message):
    with pytest.raises(ValueError, match=message):
        train_words(sentences, **options)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_read(tmp_path, end):
    words = ["</S>", "<S>", "the", "<UNK>", "na\u2028ïve", "a\xa0b", "🙂", '"']
    text = end.join(words)
    assert read_words(write(tmp_path / "a.txt", text)) == words
    assert read_words(str(write(tmp_path / "b.txt", text + end))) == words
    assert read_words(write(tmp_path / "c.txt", "\ufeff" + text)) == words
    assert read_words(write(tmp_path / "d.txt", text + end + "!!!MAXTERMID" + end)) == words


def test_write_and_read_again(tmp_path):
    words = train_words(["the cat saw the naïve 🙂 ."])
    write_words(tmp_path / "a.txt", words)
    assert read_words(tmp_path / "a.txt") == words
    assert (tmp_path / "a.txt").read_bytes() == ("\n".join(words) + "\n").encode()
    write_words(tmp_path / "a.txt", words[:4])
    assert read_words(tmp_path / "a.txt") == words[:4]
    with pytest.raises(ValueError, match="to be written to .*a.txt lacks <UNK>"):
        write_words(tmp_path / "a.txt", words[:2])
    assert read_words(tmp_path / "a.txt") == words[:4]
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("!!!MAXTERMID\n", "empty"),
        ("a\nb\n", "<S>, </S>, <UNK>"),
        ("<S>\n</S>\n<UNK>\na\nb\na\n", "'a' twice.*lines 4 and 6"),
        ("<S>\n\n</S>\n<UNK>\n", "line 2"),
        (b"<S>\n</S>\n<UNK>\ncaf\xe9\n", "byte 18"),
        (b"<S>\n\0\n", "byte 4"),
    ],
)
def test_read_errors(tmp_path, content, message):
    path = write(tmp_path / "words.txt", content)
    with pytest.raises(ValueError, match=f"words.txt .*{message}"):
        read_words(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing.txt does not exist"):
        read_words(tmp_path / "missing.txt")


@pytest.mark.parametrize(
    "text, words",
    [
        ('"It\'s mine," said Mary.', '" It \'s mine , " said Mary .'),
        ("He didn't, couldn’t and won't!", "He did n't , could n’t and wo n't !"),
        ("A well-known 3.5 % of 10,000 ...", "A well-known 3.5 % of 10,000 . . ."),
        ("the boys' rooms; they'll go", "the boys ' rooms ; they 'll go"),
        ("Über-Größe… naïve", "Über-Größe … naïve"),
        ("", ""),
    ],
)
def test_split_words(text, words):
    assert split_words(text) == words
    assert split_words(words).replace(" ", "") == words.replace(" ", "")  # nothing is lost


LISTED = ["the", ".", "naïve", "北京", "a b", "\u00a0x", "#", "n't"]


def test_ids_of_words_are_those_of_a_dict():
    index = WordIndex(LISTED)
    assert index.size == 2 + len(LISTED)
    numbers = {word: i + 2 for i, word in enumerate(LISTED)} | {"": 0}
    words = [
        "",
        "The",
        "the",
        "NAÏVE",
        "北京",
        "A b",
        " ",
        "dog",
        "\u00a0X",
        "N'T",
        "#",
        ".",
        "the ",
    ]
    got = index.ids(tf.constant(words))
    assert got.dtype == tf.int32
    assert got.numpy().tolist() == [numbers.get(word.lower(), 1) for word in words]
    square = index.ids(tf.constant([["the", ""], ["x", "."]]))
    np.testing.assert_array_equal(square, [[2, 0], [1, 3]])
    assert WordIndex([]).ids(tf.constant(["", "a"])).numpy().tolist() == [0, 1]


def test_the_list_travels_with_a_saved_model(tmp_path):
    module = tf.Module()
    module.index = index = WordIndex(LISTED)
    module.ids = tf.function(index.ids, input_signature=[tf.TensorSpec([None], "string")])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    want = index.ids(tf.constant(["The", "x", ""])).numpy()
    shutil.rmtree(pathlib.Path(index.asset.asset_path.numpy().decode()).parent)
    shutil.move(tmp_path / "saved", tmp_path / "moved")
    loaded = tf.saved_model.load(str(tmp_path / "moved"))
    np.testing.assert_array_equal(loaded.ids(tf.constant(["The", "x", ""])), want)
