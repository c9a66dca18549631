"""Documents with clusters, in every form that they are read in."""

import json

import pytest

from tfnlp.tasks import Coref

WORDS = "Ada met Charles . She wrote to him .".split()
CLUSTERS = (((0, 1), (4, 5)), ((2, 3), (7, 8)), ((0, 3),))
TEXT = " ".join(WORDS)
CONLL = """#begin document (letters); part 000
letters\t0\t0\tAda\t-\t(0)|(2
letters\t0\t1\tmet\t-\t-
letters\t0\t2\tCharles\t-\t(1)|2)
letters\t0\t3\t.\t-\t-

letters\t0\t0\tShe\t-\t(0)
letters\t0\t1\twrote\t-\t-
letters\t0\t2\tto\t-\t-
letters\t0\t3\thim\t-\t(1)
letters\t0\t4\t.\t-\t_
#end document
"""


def characters(words, span):
    return [len(" ".join([*words[: span[0]], ""])), len(" ".join(words[: span[1]]))]


SPANS = [[characters(WORDS, span) for span in cluster] for cluster in CLUSTERS]


def test_files_and_rows_mean_the_same(tmp_path):
    (tmp_path / "a.conll").write_text(CONLL * 2)
    first, second = Coref.read(tmp_path / "a.conll").examples
    assert first == second and first.words == tuple(WORDS)
    assert set(first.clusters) == set(CLUSTERS)
    spaced = tmp_path / "b.txt"  # columns between spaces
    spaced.write_text(CONLL.replace("\t", "   "))
    inclusive = [[[start, end - 1] for start, end in cluster] for cluster in CLUSTERS]
    rows = [
        {"words": WORDS, "clusters": CLUSTERS},
        {"sentences": [WORDS[:4], WORDS[4:]], "clusters": inclusive},
        (WORDS, CLUSTERS),
    ]
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(row) for row in rows[:2]))
    for source in (spaced, rows[:2], rows[2:], tmp_path / "c.jsonl"):
        assert all(example == first for example in Coref.read(source).examples)

    (text,) = Coref.read([(TEXT, SPANS)]).examples
    assert text.words is None and {*text.clusters} == {tuple(map(tuple, c)) for c in SPANS}
    assert first.characters(first.clusters) == text.characters(text.clusters)
    assert [[TEXT[a:b] for a, b in c] for c in SPANS] == [
        ["Ada", "She"], ["Charles", "him"], ["Ada met Charles"],
    ]  # fmt: skip


def test_texts_to_predict():
    for rows in ([TEXT], [{"text": TEXT}]):
        (example,) = Coref.read(rows, labelled=False).examples
        assert example.text == TEXT and example.clusters is None
    (example,) = Coref.read([WORDS], labelled=False).examples
    assert example.words == tuple(WORDS)


@pytest.mark.parametrize(
    "row, message",
    [
        ({"text": TEXT}, "data, row 0: clusters must be a list of lists"),
        ({"text": TEXT, "clusters": [[]]}, "row 0: a cluster must be a list of "),
        (
            {"text": TEXT, "clusters": [[[0, 99]]]},
            r"\[0, 99\] is no \[start, end\] within 0 and 36",
        ),
        ({"text": TEXT, "clusters": [[[3, 3]]]}, r"\[3, 3\] is no"),
        ({"text": TEXT, "clusters": [[[0, 1.0]]]}, "is no"),
        ({"text": TEXT, "clusters": [[[0, 3]], [[0, 3]]]}, r"the mention \[0, 3\] is there twice"),
        ({"words": "a b", "clusters": []}, "words must be a list of words; got 'a b'"),
        ({"words": ["a", ""], "clusters": []}, "words must be a list"),
        ({"text": " ", "clusters": []}, "its text is empty"),
    ],
)
def test_what_is_wrong_with_a_row_is_named(row, message):
    with pytest.raises(ValueError, match=message):
        Coref.read([row])


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("#begin document (letters); part 000\n", "", "line 1: expected '#begin document'"),
        ("(1)|2)", "(1)", r"the document of line 1: the mention \(2 has no end"),
        ("(1)|2)", "2)|3)", r"line 4: the mention 3\) has no beginning"),
        ("#end document\n", "", "the document of line 1: has no '#end document'"),
        ("\t-\t(0)|(2", "", "line 2: has 4 columns; expected 5 or more"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(old, new, message, tmp_path):
    assert old in CONLL
    (tmp_path / "a.conll").write_text(CONLL.replace(old, new))
    with pytest.raises(ValueError, match=message) as raised:
        Coref.read(tmp_path / "a.conll")
    assert "a.conll" in str(raised.value)
