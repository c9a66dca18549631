import gzip
from collections import Counter

import pytest

from tests.support import shared_data
from tfnlp.data import TaskExample, read_choices, read_classes, read_pairs

COPA = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE copa-corpus SYSTEM "copa.dtd">
<copa-corpus version="1.0">
  <item id="1" asks-for="cause" most-plausible-alternative="1">
    <p>The runner wore shorts.</p>
    <a1>It was hot &amp; dry.</a1>
    <a2>She planned to run
along the beach.</a2>
  </item>
  <item id="2" asks-for="effect" most-plausible-alternative="2">
    <p>It rained.</p><a1>It was dry.</a1><a2>It was wet.</a2>
  </item>
</copa-corpus>
"""


def write(folder, content, name="a.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_lines_of_label_and_text(tmp_path):
    content = "1 a fine film .\n\n0  so-so\t2\u00a01/2 \n"
    want = [TaskExample(("a fine film .",), "1"), TaskExample(("so-so\t2\u00a01/2",), "0")]
    assert read_classes(write(tmp_path, content)) == want
    packed = gzip.compress(content.replace("\n", "\r\n").encode())
    assert read_classes(write(tmp_path, packed, "a.gz")) == want


def test_classes_in_columns(tmp_path):
    path = write(tmp_path, 'sentence\tlabel\nsay "no \t1\n" or yes\t0\n')
    want = [TaskExample(('say "no',), "1"), TaskExample(('" or yes',), "0")]
    assert read_classes(path, ("sentence", "label")) == want
    cola = write(tmp_path, "gj04\t1\t\tHe went.\ngj04\t0\t*\tHe goed.\n")
    want = [TaskExample(("He went.",), "1"), TaskExample(("He goed.",), "0")]
    assert read_classes(cola, (3, 1)) == want


def test_pairs_by_header_by_number_and_in_json(tmp_path):
    rows = [("A \"dog", "An animal.", "yes"), ("A cat", "No \"animal.", "-"), ("x", "y", "no")]
    want = [TaskExample(row[:2], row[2]) for row in (rows[0], rows[2])]
    lines = ["index\tlabel\tsentence1\tsentence2"]
    lines += [f"{n}\t{label}\t{a}\t{b}" for n, (a, b, label) in enumerate(rows)]
    assert read_pairs(write(tmp_path, "\n".join(lines))) == want
    bare = write(tmp_path, "\n".join(lines[1:]) + "\n")
    assert read_pairs(bare, (2, 3, 1)) == want
    assert len(read_pairs(bare, (2, 3, 1), drop=())) == 3
    objects = ['{"b": "An animal.", "a": "A \\"dog", "y": "yes", "z": 0}']
    objects += ['{"a": "x", "b": "y", "y": "no"}', ""]
    path = write(tmp_path, "\n".join(objects), "a.jsonl")
    assert read_pairs(path, ("a", "b", "y")) == want


def test_scores(tmp_path):
    path = write(tmp_path, "g\t5.000\tA\tB\ng\t0\tC\tD\tsource\tsource\n")
    want = [TaskExample(("A", "B"), 5.0), TaskExample(("C", "D"), 0.0)]
    assert read_pairs(path, (2, 3, 1), score=True) == want


def test_choices(tmp_path):
    copa = [
        TaskExample(
            ("The runner wore shorts because",),
            0,
            ("It was hot & dry.", "She planned to run\nalong the beach."),
        ),
        TaskExample(("It rained so",), 1, ("It was dry.", "It was wet.")),
    ]
    assert read_choices(write(tmp_path, COPA, "a.xml")) == copa
    assert read_choices(write(tmp_path, gzip.compress(COPA.encode()), "a.xml.gz")) == copa
    path = write(tmp_path, 'o\tHe "is\there\tthere\tgone\t2\ni\tShe\ta\tb\tc\t0\n', "a.tsv")
    assert read_choices(path) == [
        TaskExample(('He "is',), 2, ("here", "there", "gone")),
        TaskExample(("She",), 0, ("a", "b", "c")),
    ]


def scores(path):
    return read_pairs(path, (0, 1, 2), score=True)


@pytest.mark.parametrize(
    "reader, name, content, message",
    [
        (read_classes, "a", "1 good\n0 \n", "a, line 2: its text is empty"),
        (read_classes, "a", "\n", "no examples in .*a"),
        (read_classes, "a", b"\xff\xfe", "is not UTF-8 text"),
        (read_pairs, "a", "sentence1\tlabel\n", "a: no column 'sentence2'; its columns"),
        (read_pairs, "a", "sentence1\tsentence2\tlabel\n\na\tb\n", "line 3: has no 'label'"),
        (read_pairs, "a", "sentence1\tsentence2\tlabel\na\t\tb\n", "line 2: text .* is empty"),
        (read_pairs, "a", "sentence1\tsentence2\tlabel\n", "no examples in"),
        (read_pairs, "a.jsonl", '{"sentence1": "x"}', "no column 'sentence2'; its columns are 'se"),
        (read_pairs, "a.jsonl", "[1]", "line 1: expected a JSON object"),
        (read_pairs, "a.jsonl", "\n{", "line 2: not valid JSON"),
        (scores, "a", "a\tb\t1\na\tb\tx\n", "line 2: the score must be a number; got 'x'"),
        (scores, "a", "a\tb\tnan\n", "line 1: the score must be a number; got 'nan'"),
        (read_choices, "a", "o\ta\tb\tc\t2\n", "line 1: its label must be the index of one"),
        (read_choices, "a", "o\ta\tb\tc\t-1\n", "index of one of 2 choices, from 0; got '-1'"),
        (read_choices, "a", "\no\ta\tb\t0\n", "line 2: expected category, text, two or more answ"),
        (read_choices, "a", "o\ta\t\tb\t0\n", "line 1: a choice is empty"),
        (read_choices, "a.xml", "<a>\n<b>\n</a>", "line 3: not valid XML"),
        (read_choices, "a.xml", "<a/>", "no examples in"),
        (read_choices, "a.xml", COPA.replace('"effect"', '"both"'), "line 10: expected asks-for"),
        (read_choices, "a.xml", COPA.replace('ive="1"', 'ive="0"'), "line 4: .* 'cause' and '0'"),
        (read_choices, "a.xml", COPA.replace("<p>It rained.</p>", ""), "line 10: expected the"),
    ],
)
def test_rows_that_cannot_be_read(tmp_path, reader, name, content, message):
    with pytest.raises(ValueError, match=message):
        reader(write(tmp_path, content, name))


@pytest.mark.parametrize("columns", [("a", "b"), ("a", "b", 2), (0, 1, -1), (0, 1, 2, 3)])
def test_wrong_columns(tmp_path, columns):
    with pytest.raises(ValueError, match="columns must be 3 names, or 3 numbers from 0"):
        read_pairs(write(tmp_path, "a\tb\tc\n"), columns)


def test_wrong_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file: .*absent"):
        read_choices(str(tmp_path / "absent.xml"))
    with pytest.raises(IsADirectoryError, match="expected a file"):
        read_classes(str(tmp_path))


# Rows and labels counted with `cut`, `sort` and `uniq -c`.
PUBLISHED = {
    "cls/sst2/train.txt": (read_classes, 6920, {"1": 3610, "0": 3310}),
    "cls/sst2_glue/dev.tsv": (
        lambda path: read_classes(path, ("sentence", "label")),
        6735,
        {"1": 3741, "0": 2994},
    ),
    "pair/rte/train.tsv": (read_pairs, 2490, {"entailment": 1249, "not_entailment": 1241}),
    "pair/snli/dev_raw.jsonl": (
        lambda path: read_pairs(path, ("premise", "hypothesis", "label")),
        9842,
        {"entailment": 3329, "contradiction": 3278, "neutral": 3235},
    ),
    "mc/copa/copa-dev.xml": (read_choices, 500, {0: 250, 1: 250}),
    "mc/codah/fold_0_train.tsv": (read_choices, 1665, {3: 433, 0: 426, 2: 404, 1: 402}),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files_are_read_whole(name):
    reader, rows, labels = PUBLISHED[name]
    examples = reader(str(shared_data(name)))
    assert len(examples) == rows and Counter(e.label for e in examples) == labels


def test_published_scores_are_read_whole():
    examples = read_pairs(str(shared_data("pair/stsb/sts-train.tsv")), (5, 6, 4), score=True)
    assert len(examples) == 5749 and {type(e.label) for e in examples} == {float}
    assert min(e.label for e in examples) == 0 and max(e.label for e in examples) == 5
