"""Schemes of tags, spans and comments in files of tagged sentences, all read as BIO."""

import json

import pytest

from tests.data.reading_test import conll
from tests.data.task_files import CONLLU, write
from tests.support import golden
from tfnlp.data import TaggedSentence
from tfnlp.data.labelled.tag_schemes import as_bio, scheme_of
from tfnlp.tasks import Tag
from tfnlp.tasks.entities import entities

# Two entities of A, of two words and of one, that touch one of B of three words.
BIES = ("O", "B-A", "E-A", "B-B", "I-B", "E-B", "S-A", "O")
IN_BIO = ("O", "B-A", "I-A", "B-B", "I-B", "I-B", "B-A", "O")
LETTERS = {"BIOES": "BIES", "BILOU": "BILU", "BMEOW": "BMEW", "BMEOS": "BMES"}


@pytest.mark.parametrize("name", LETTERS)
def test_other_schemes_are_read_as_bio(name, tmp_path):
    letters = dict(zip("BIES", LETTERS[name], strict=True))
    tags = tuple(letters.get(tag[0], tag[0]) + tag[1:] for tag in BIES)
    data = Tag.read(write(tmp_path, conll([tags, ("O",)]), "a.conll"))
    assert [e.tags for e in data.examples] == [IN_BIO, ("O",)]
    changed = sum(a != b for a, b in zip(tags, IN_BIO, strict=True))
    message = f"{name} tags, read as BIO: {changed} of 9 tags converted, 3 entities"
    assert data.scheme == message
    # An E after O begins an entity, a B before O ends one; both are counted.
    wrong = ("O", letters["E"] + "-A", "O", "B-B", "O")
    data = Tag.read(write(tmp_path, conll([tags, wrong]), "a.conll"))
    assert data.examples[1].tags == ("O", "B-A", "O", "B-B", "O")
    assert data.scheme.endswith("; 2 tags do not fit the one before them")


def test_entities_of_other_schemes_are_those_of_seqeval(tmp_path):
    """The tags of the golden file, in BIOES, mark the entities that seqeval finds in them."""
    for case in json.loads(golden("entities_seqeval.json").read_text()):
        for text, found in zip(case["tags"], case["entities"], strict=True):
            tags = text.split()
            if not found or scheme_of(tags) is None:
                continue
            words = ["O"] * len(tags)
            for kind, start, end in found:
                inner = [f"I-{kind}"] * (end - start - 2)
                whole = [f"B-{kind}", *inner, f"E-{kind}"]
                words[start:end] = whole if end - start > 1 else [f"S-{kind}"]
            assert entities(as_bio(words)) == entities(as_bio(tags)) == [tuple(e) for e in found]


def test_schemes_that_are_mixed(tmp_path):
    data = Tag.read(write(tmp_path, conll([("B-A", "E-A"), ("U-A", "O")]), "a.conll"))
    assert [e.tags for e in data.examples] == [("B-A", "I-A"), ("B-A", "O")]
    assert data.scheme.startswith("tags of mixed schemes, read as BIO: 2 of 4 tags")
    data = Tag.read(write(tmp_path, conll([("I-A", "E-A", "E-A", "O")]), "a.conll"))
    assert data.examples[0].tags == ("B-A", "I-A", "B-A", "O") and data.scheme.startswith("IOE")


SPANS = [
    {"tokens": ["Ann", "Lee", "left", "Rome"], "spans": [[0, 2, "PER"], [3, 4, "LOC"]]},
    {"text": "Ann Lee (43) left Rome.", "entities": [{"start": 18, "end": 22, "label": "LOC"}]},
    {"text": "in New-York", "label": [[4, 6, "LOC"]]},
    {"words": ["no"], "entities": []},
    # Label Studio (JSON-MIN) and doccano.
    {"text": "in Rome", "label": [{"start": 3, "end": 7, "text": "Rome", "labels": ["LOC"]}]},
    {
        "text": "in Rome",
        "entities": [{"id": 1, "label": "LOC", "start_offset": 3, "end_offset": 7}],
    },
]


def test_spans_are_read_as_bio(tmp_path):
    want = [
        TaggedSentence(("Ann", "Lee", "left", "Rome"), ("B-PER", "I-PER", "O", "B-LOC")),
        TaggedSentence(
            ("Ann", "Lee", "(", "43", ")", "left", "Rome", "."),
            (*"OOOOOO", "B-LOC", "O"),
            text="Ann Lee (43) left Rome.",
        ),
        TaggedSentence(("in", "New", "-", "York"), ("O", "B-LOC", "O", "O"), text="in New-York"),
        TaggedSentence(("no",), ("O",)),
        TaggedSentence(("in", "Rome"), ("O", "B-LOC"), text="in Rome"),
        TaggedSentence(("in", "Rome"), ("O", "B-LOC"), text="in Rome"),
    ]
    for row, example in zip(SPANS, want, strict=True):
        assert Tag.read(write(tmp_path, json.dumps(row), "a.jsonl")).examples == [example]
        assert Tag.read([row]).examples == [example]
        unlabelled = {
            key: value for key, value in row.items() if key in ("tokens", "text", "words")
        }
        (alone,) = Tag.read([unlabelled], labelled=False).examples
        assert (alone.words, alone.text) == (example.words, example.text)
        if example.text is not None:
            assert [example.text[a:b] for a, b in example.places()] == [*example.words]
            (coarse,) = Tag.read([unlabelled], labelled=False, splitter="spaces").examples
            assert coarse.words == tuple(example.text.split())
        rows = [row, unlabelled]
        assert Tag.read(rows, labelled=False).examples[1].tags is None
        with pytest.raises(ValueError, match="row 1: has no 'spans'"):
            Tag.read(rows)


@pytest.mark.parametrize(
    "spans, why",
    [
        ([[0, 2, "A"], [1, 3, "B"]], "overlaps another"),
        ([[2, 4, "A"]], "not within its 3 words"),
        ([[1, 1, "A"]], "not within its 3 words"),
        ([[0, "1", "A"]], "must be whole numbers"),
        ([[0, 1]], r"must be \[start, end, type\]"),
        ([[0, 1, ""]], "type of a span is empty"),
        ("0 1 A", "must be a list of spans"),
        ([{"start": 0, "end": 1, "labels": ["A", "B"]}], "the type of a span must be a text"),
    ],
)
def test_wrong_spans(spans, why):
    rows = [{"tokens": ["a", "b", "c"], "spans": x} for x in ([[0, 1, "A"]], spans)]
    with pytest.raises(ValueError, match=f"row 1: .*{why}"):
        Tag.read(rows)
    assert len(Tag.read(rows, skip=True).examples) == 1


def test_comments_in_columns(tmp_path):
    """A "#" that is no row of the table; a word "#" and a hashtag are."""
    content = "# id 1 domain=en\n# newdoc\nEU B-A\n# O\n#EU B-A\n\n#begin\n-DOCSTART- O\n\nit O\n"
    for end in ("\n", "\r\n"):
        for mark in ("", "\ufeff"):
            path = write(tmp_path, mark + content.replace("\n", end), "a.conll")
            assert Tag.read(path).examples == [
                TaggedSentence(("EU", "#", "#EU"), ("B-A", "O", "B-A")),
                TaggedSentence(("it",), ("O",)),
            ]


TOKENS = (
    [("EU", "B-ORG"), ("rejects", "O"), ("German", "B-MISC")],
    [("Peter", "B-PER"), ("B", "I-PER")],
)
TAGGED = [TaggedSentence(*zip(*rows, strict=True)) for rows in TOKENS]


def columns(start=1, running=False, count=True, end="\n"):
    """The sentences as columns: a number of the word, the word, something, the tag."""
    lines, number = [], start
    for rows in TOKENS:
        number = number if running else start
        for word, tag in rows:
            lines.append("\t".join([str(number)] * count + [word, "x", tag]))
            number += 1
        lines.append("")
    return end.join(lines) + end


@pytest.mark.parametrize("name", ["a.conll", "a.txt", "a.tsv"])
def test_conllu_of_another_name(name, tmp_path):
    path = write(tmp_path, CONLLU, name)
    data = Tag.read(path)
    assert data.examples == [
        TaggedSentence(("do", "n't"), ("AUX", "PART")),
        TaggedSentence(("_",), ("PUNCT",)),
    ]
    assert "CoNLL-U" in Tag.form.understood(data)
    assert Tag.read(path, label="xpos").examples[1].tags == ("NFP",)
    chosen = Tag.read(path, text=3, label=4, skip=True).examples  # as the user says
    assert chosen[-1] == TaggedSentence(("PUNCT",), ("NFP",))


@pytest.mark.parametrize("start, running", [(0, False), (1, False), (1, True), (0, True)])
def test_a_column_that_counts_is_none_of_words(start, running, tmp_path):
    for content in (columns(start, running), columns(start, running, end="\r\n")):
        path = write(tmp_path, content, "a.conll")
        data = Tag.read(path)
        assert data.examples == TAGGED
        assert "words in column 1, tags in column 3 of 0 to 3" in Tag.form.understood(data)
    assert Tag.read(path, text=0).examples[0].words[0] == str(start)
    numbers = write(tmp_path, columns(count=0).replace("German", "3"), "b.conll")
    assert Tag.read(numbers).examples[0].words == ("EU", "rejects", "3")
    with pytest.raises(ValueError, match="counts the words"):
        Tag.read(write(tmp_path, "1 O\n2 B-A\n\n1 O\n2 O\n", "c.conll"))
    with pytest.raises(ValueError, match="expected words and tags"):
        Tag.read(write(tmp_path, "1\n", "d.conll"))


@pytest.mark.parametrize(
    "header, more",
    [
        ("token\tx\ttag", 0),
        ("Word\tPOS\tNER", 0),
        ("id\tform\tx\tentities", 1),
        ("text\tx\tlabel\n", 0),
    ],
)
def test_a_header_is_no_word(header, more, tmp_path):
    for before in ("", "# a comment\n"):
        path = write(tmp_path, f"{before}{header}\n{columns(count=more)}", "a.txt")
        data = Tag.read(path)
        assert data.examples == TAGGED and data.scheme == "BIO tags of 3 entities"
        said = Tag.form.understood(data)
        assert f"words in column {more}, " in said and "header" in said
        assert "EU/B-ORG rejects/O German/B-MISC" in said
    words = write(tmp_path, "Text O\nEU B-A\n\nword NOUN\n", "b.txt")  # words of these names
    assert len(Tag.read(words).examples[0].words) == 2


def test_tags_that_say_none_are_refused(tmp_path):
    rows = [
        {"tokens": ["a", "b"], "ner_tags": [0, 1]},
        {"tokens": ["a", "b"], "ner_tags": [0, -100]},
    ]
    for source in (rows, write(tmp_path, "a 0\nb 1\n\na 0\nb -100\n", "a.txt")):
        with pytest.raises(ValueError, match="(row 1|line 4): the tag -100"):
            Tag.read(source)
        (kept,) = Tag.read(source, skip=True).examples
        assert kept.tags == ("0", "1")
