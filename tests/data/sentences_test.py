import random
import sys
import unicodedata

import pytest

from tests.support import shared_data
from tfnlp import books
from tfnlp.data.corpus.sentences import (
    documents_between_marks,
    looks_like_sentences,
    looks_like_words,
    split_sentences,
)


def read(path):
    return path.read_text(encoding="utf-8-sig").splitlines()


def test_split_sentences_joins_lines_and_knows_abbreviations():
    text = (
        "  Mr. Craven left at 3.5 p.m.\tfor\r\nthe U.S. embassy.  "
        "\u201cWhy? Now?\u201d she\u00a0asked. Yes!\n"
    )
    assert split_sentences(text) == [
        "Mr. Craven left at 3.5 p.m. for the U.S. embassy.",
        "\u201cWhy? Now?\u201d she asked.",
        "Yes!",
    ]
    assert split_sentences(" \n\t ") == []


def test_split_sentences_keeps_every_character_of_any_unicode_text():
    rng = random.Random(0)
    points = [c for c in map(chr, range(1, sys.maxunicode + 1)) if unicodedata.category(c) != "Cs"]
    for _ in range(300):
        pools = rng.choices([points, " .!?\"'()[]Aa\u00a0\u2028"], k=rng.randrange(40))
        text = "".join(rng.choice(pool) for pool in pools)
        assert "".join(split_sentences(text)).replace(" ", "") == "".join(text.split())


def test_prose_paragraphs_chapters_and_line_ends():
    text = (
        "CHAPTER I\r\n\r\nIt was a long way.\r\nThe road was\r\nempty. Rain fell.\r\n\r\n"
        '"Oh!" she said.\r\n   \r\n\r\n\r\nCHAPTER II\r\n\r\nNight came.\r\n'
    )
    assert list(documents_between_marks(text.split("\n"), "prose")) == [
        ["CHAPTER I", "It was a long way.", "The road was empty.", "Rain fell.", '"Oh!" she said.'],
        ["CHAPTER II", "Night came."],
    ]


def test_prose_long_lines_are_paragraphs():
    long = "word " * 30 + "end"
    documents = list(documents_between_marks(["title", long, long, "broken", "line"], "prose"))
    assert documents == [["title", long, long, "broken line"]]
    assert list(documents_between_marks(["", " ", "", "\t"], "prose")) == []


def test_wikitext_titles_start_documents_and_headings_are_left_out():
    text = """
 = Lobster =

 A lobster is red . It swims .

 = = Life = =


 = = = Youth = = =

 It is small .


 = Headlam ( pilot ) =

 He flew ."""
    assert list(documents_between_marks(text.split("\n"), "prose")) == [
        ["A lobster is red .", "It swims .", "It is small ."],
        ["He flew ."],
    ]


def test_lines_and_words_layouts():
    lines = ["One.", "  Two  words. ", "", "", "Three.", "\r", "", "Four"]
    assert list(documents_between_marks(lines, "lines")) == [
        ["One.", "Two words."],
        ["Three."],
        ["Four"],
    ]
    text = "The|cat|.||It| sat \t|.|||Night|.|||| New  York |-DOCSTART- -X- O||End|-DOCSTART-|Go|"
    want = [["The cat .", "It sat ."], ["Night ."], ["New York"], ["End"], ["Go"]]
    assert list(documents_between_marks(text.split("|"), "words")) == want
    assert list(documents_between_marks(["", " ", "-DOCSTART-", "", ""], "words")) == []
    # However many blank lines come first, and without one at the end.
    assert list(documents_between_marks(["", "", "", "a", "", "b"], "words")) == [["a", "b"]]


WORDS = ["The", "cat", "sat", ".", "", "It", "ran", "away", "!"]


@pytest.mark.parametrize(
    "lines, layout",
    [
        (WORDS, "words"),
        (["-DOCSTART- -X-", "", *(WORDS + [""]) * 20], "words"),
        (WORDS[:4], None),  # a list of words
        (["Rain", "", "Snow", "", "Fog"], None),
        (["Rain.", "Snow.", "", "Night.", "Fog."], "lines"),  # sentences of a word
        ([f"{word} X" for word in WORDS if word] + [""] + WORDS, None),
        (["", " "], None),
        ([], None),
        (["It rained.", 'She said "no."', "Why?", "", "He left (early.)", "Then!"], "lines"),
        # Broken lines, whole paragraphs, and a page of dialogue are prose.
        (["It rained. She said", "no. Why did he", "leave?"], None),
        (["It rained. She said no.", "Why? He left. Night fell."], None),
        (["It rained.", "", "No.", "", "Why?", "", "He left."], None),
    ],
)
def test_layouts_of_small_texts(lines, layout):
    assert looks_like_words(lines) == (layout == "words")
    assert looks_like_sentences(lines) == (layout == "lines")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lm/bert_docs/books_train.txt", True),
        ("lm/bert_docs/books_valid.txt", True),
        ("golden/google_bert_sample_text.txt", True),
        ("lm/novels_raw/Burnett_Garden_1911.txt", False),
        ("lm/novels_raw/Haggard_Mines_1885.txt", False),
        ("lm/wikitext-2-raw/wiki.valid.raw", False),
        ("lm/tinyshakespeare/input.txt", False),
    ],
)
def test_looks_like_sentences_on_real_texts(name, expected):
    for sample in (200, 2000):
        lines = read(shared_data(name))[:sample]
        assert looks_like_sentences(lines) is expected
        assert not looks_like_words(lines)


def test_every_title_of_wikitext_is_a_document():
    lines = read(shared_data("lm/wikitext-2-raw/wiki.valid.raw"))
    titles = [line for line in lines if line.startswith(" = ") and not line.startswith(" = = ")]
    assert len(list(documents_between_marks(lines, "prose"))) == len(titles) == 60


def test_the_book_is_clean_and_has_27_chapters():
    raw = books.path().read_bytes()
    text = raw.decode("utf-8")
    assert b"\r" not in raw and not text.startswith("\ufeff") and text.endswith(".\n")
    documents = list(documents_between_marks(text.split("\n"), "prose"))
    assert sum(document[0].startswith("CHAPTER ") for document in documents) == 27
    # Nothing is lost, whatever the sentences.
    sentences = "".join(s for document in documents for s in document)
    assert sentences.replace(" ", "") == "".join(text.split())
    with pytest.raises(ValueError, match="no book 'moby_dick'; choose from the_secret_garden"):
        books.path("moby_dick")
