import gzip
import json

import pytest

from tfnlp.data import Question, TaggedSentence, TaskData, TaskExample, examples_of, read_task


def write(folder, content, name):
    path = folder / name
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(path)


PAIR = [TaskExample(('A "dog', "An animal."), "yes"), TaskExample(("x", "y, z"), "no")]

TABLES = {
    "a.tsv": 'id\tlabel\tpremise\thypothesis\n1\tyes\tA "dog\t An animal.\n\n2\tno\tx\ty, z\t\n',
    "a.csv": 'label,premise,hypothesis\nyes,"A ""dog",An animal.\n,,\nno,x,"y, z"\n',
    "a.jsonl": '{"label": "yes", "premise": "A \\"dog", "hypothesis": "An animal."}\n\n'
    '{"hypothesis": "y, z", "premise": "x", "label": "no", "more": [1]}\n',
}


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_with_the_columns_that_they_have(tmp_path, name, end):
    path = write(tmp_path, TABLES[name], name + end)
    assert read_task("classify", path) == TaskData(PAIR, [])
    one = read_task("classify", [path], text="hypothesis", label="label").examples
    assert one == [TaskExample((e.segments[1],), e.label) for e in PAIR]


@pytest.mark.parametrize(
    "columns, texts",
    [
        ("sentence sentence1 sentence2 label", (1, 2)),
        ("text hypothesis premise gold_label", (2, 1)),
        ("sentence question idx score", (1, 0)),
        ("text_b text_a similarity text", (1, 0)),
        ("text sentence label x", (1,)),
        ("label gold_label score text", (3,)),
    ],
)
def test_which_columns_come_first(tmp_path, columns, texts):
    names = columns.split()
    fields = [f"{n}" for n in range(4)]
    label = next(n for n in ("label", "gold_label", "score", "similarity", "idx") if n in names)
    path = write(tmp_path, "\t".join(names) + "\n" + "\t".join(fields), "a.tsv")
    want = TaskExample(tuple(fields[n] for n in texts), fields[names.index(label)])
    assert read_task("classify", path, label=label).examples == [want]
    if label != "idx":
        assert read_task("classify", path).examples == [want]


def test_columns_by_number_and_several_files(tmp_path):
    cola = write(tmp_path, 'gj04\t1\t\tHe "went.\ngj04\t0\t*\tHe goed.\n', "a.tsv")
    rows = write(tmp_path, 'x,0,,"He, too\nran"\n', "b.csv")
    want = [('He "went.', "1"), ("He goed.", "0"), ("He, too\nran", "0")]
    for text, label in ((3, 1), ("3", "1"), (["3"], 1)):
        examples = read_task("classify", [cola, rows], text=text, label=label).examples
        assert [(*e.segments, e.label) for e in examples] == want


def test_lines_of_label_and_text(tmp_path):
    path = write(tmp_path, "1 a fine film\n\nNUM:date When ?\n", "a.txt")
    texts = [e.segments[0] for e in read_task("classify", path, labelled=False).examples]
    assert texts == ["1 a fine film", "NUM:date When ?"]
    want = [TaskExample(("a fine film",), "1"), TaskExample(("When ?",), "NUM:date")]
    assert read_task("classify", path).examples == want
    assert read_task("classify", path, label=0, labelled=False).examples == want


def test_scores(tmp_path):
    path = write(tmp_path, "s\t5.000\tA\tB\ns\t0\tC\tD\tmore\tmore\n", "a.txt")
    want = [TaskExample(("A", "B"), 5.0), TaskExample(("C", "D"), 0.0)]
    assert read_task("similarity", path, text=(2, 3), label=1).examples == want
    path = write(tmp_path, '{"text_a": "A", "text_b": "B", "score": 1}', "a.jsonl")
    assert read_task("similarity", path).examples == [TaskExample(("A", "B"), 1.0)]


@pytest.mark.parametrize(
    "name, content, columns",
    [
        ("a.jsonl", '{"context": "He", "endings": ["ran", "sat", "ate"], "label": 2}', {}),
        ("a.jsonl", '{"premise": "He", "choices": ["ran", "sat", "ate"], "label": "2"}', {}),
        ("a.jsonl", '{"question": "He", "answers": ["ran", "sat", "ate"], "label": 2}', {}),
        (
            "a.jsonl",
            '{"x": "He", "a": "ran", "b": "sat", "c": "ate", "y": 2}',
            {"text": ["x", "a", "b", "c"], "label": "y"},
        ),
        ("a.jsonl", '{"x": "He", "a": ["ran", "sat", "ate"], "label": 2}', {"text": ["x", "a"]}),
        ("a.csv", "label,x,a,b,c\n2,He,ran,sat,ate\n", {"text": ["x", "a", "b", "c"]}),
        ("a.tsv", "2\tHe\tran\tsat\tate\n", {"text": [1, 2, 3, 4], "label": 0}),
        ("a.tsv", "o\tHe\tran\tsat\tate\t2\n", {}),
    ],
)
def test_choices(tmp_path, name, content, columns):
    path = write(tmp_path, content, name)
    want = TaskExample(("He",), 2, ("ran", "sat", "ate"))
    assert read_task("choose", path, **columns).examples == [want]


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


def test_copa(tmp_path):
    shorts = "It was hot & dry.", "She planned to run\nalong the beach."
    for name in ("a.xml", "a.xml.gz"):
        assert read_task("choose", write(tmp_path, COPA, name)).examples == [
            TaskExample(("The runner wore shorts because",), 0, shorts),
            TaskExample(("It rained so",), 1, ("It was dry.", "It was wet.")),
        ]


def test_choices_with_a_passage_and_a_question(tmp_path):
    row = {"context": "He ran. ", "question": "Who?", "choices": ["he", "she"], "label": 0}
    path = write(tmp_path, json.dumps(row), "a.jsonl")
    want = TaskExample(("He ran. Who?",), 0, ("he", "she"))
    assert read_task("choose", path).examples == [want]


CONLL = "-DOCSTART- -X- O\n\n# NN B\n10\u00a0000 CD  I \n\t\nEU NNP O"
TAGGED = [
    TaggedSentence(("#", "10\u00a0000"), ("B", "I")),
    TaggedSentence(("EU",), ("O",)),
]


def test_columns_of_words_and_tags(tmp_path):
    for content in (CONLL, CONLL.replace("CD  I ", "CD I").replace(" ", "\t") + "\n\n \n\n"):
        path = write(tmp_path, content, "a.conll")
        for label in (None, 2, "2"):
            assert read_task("tag", path, label=label).examples == TAGGED
        middle = read_task("tag", path, label=1).examples
        assert [s.tags for s in middle] == [("NN", "CD"), ("NNP",)]
        assert read_task("tag", path, text=1, label=0).examples[1].words == ("NNP",)


IOB1 = {  # by hand: Ramshaw & Marcus 1995, section 4
    ("O", "I-A", "I-A", "B-A", "I-B", "O"): ("O", "B-A", "I-A", "B-A", "B-B", "O"),
    ("I-A", "I-B", "B-B", "I-B"): ("B-A", "B-B", "B-B", "I-B"),
    ("I-A", "O", "I-A"): ("B-A", "O", "B-A"),
}


def conll(sentences):
    rows = ["".join(f"w{i} {tag}\n" for i, tag in enumerate(tags)) for tags in sentences]
    return "\n".join(rows)


def test_tags_of_entities_are_read_as_bio(tmp_path):
    data = read_task("tag", write(tmp_path, conll(IOB1), "iob1.txt"))
    assert [e.tags for e in data.examples] == list(IOB1.values())
    assert data.scheme == "IOB1 tags, read as BIO: 6 of 8 entities begin with I-"
    rows = [(["w"] * len(tags), list(tags)) for tags in IOB1]
    found = examples_of(rows, "tag")
    assert found.scheme == data.scheme
    assert [e.tags for e in found.examples] == list(IOB1.values())
    assert examples_of(found.examples, "tag").scheme == "BIO tags of 8 entities"
    data = read_task("tag", write(tmp_path, conll(IOB1.values()), "bio.txt"))
    assert [e.tags for e in data.examples] == list(IOB1.values())
    assert data.scheme == "BIO tags of 8 entities"
    # A file of both, and one in which nothing says which it is: it means the same in both.
    data = read_task("tag", write(tmp_path, conll([*IOB1, ("B-A", "O")]), "both.txt"))
    assert data.scheme.startswith("BIO and IOB1 tags mixed, read as BIO: 6 of 9 ent")
    assert data.examples[-1].tags == ("B-A", "O")
    for tags in (("O", "O"), ("NN", "I-A"), ("O", "S-A", "I-A")):
        data = read_task("tag", write(tmp_path, conll([tags]), "other.txt"))
        assert data.examples[0].tags == tags and data.scheme is None


def test_words_and_tags_in_json(tmp_path):
    rows = '{"tokens": ["#", "10\u00a0000"], "ner_tags": ["B", "I"], "id": 4}\n'
    path = write(tmp_path, rows + '{"tokens": ["EU"], "ner_tags": ["O"]}\n', "a.jsonl")
    assert read_task("tag", path).examples == TAGGED
    path = write(tmp_path, '{"w": ["a", "b"], "t": [3, 0]}', "b.jsonl")
    want = TaggedSentence(("a", "b"), ("3", "0"))
    assert read_task("tag", path, text="w", label="t").examples == [want]


CONLLU = "\n".join(
    "\t".join(row) if row else ""
    for row in [
        ("# sent_id = 1",),
        ("1-2", "don't", *"________"),
        ("1", "do", "do", "AUX", "VB", *"_____"),
        ("2", "n't", "not", "PART", "RB", "Polarity=Neg", *"____"),
        ("2.1", "go", *"________"),
        (),
        ("1", "_", "_", "PUNCT", "NFP", *"_____"),
    ]
)


def test_conllu(tmp_path):
    for name in ("a.conllu", "a.conllu.gz"):
        path = write(tmp_path, CONLLU, name)
        for label, tags in {
            None: [("AUX", "PART"), ("PUNCT",)],
            "upos": [("AUX", "PART"), ("PUNCT",)],
            "xpos": [("VB", "RB"), ("NFP",)],
            4: [("VB", "RB"), ("NFP",)],
            "5": [("_", "Polarity=Neg"), ("_",)],
        }.items():
            found = read_task("tag", path, label=label).examples
            assert found == [
                TaggedSentence(("do", "n't"), tags[0]),
                TaggedSentence(("_",), tags[1]),
            ]


CONTEXT = " É\U0001d4d0 cat sat. A cat ran."


def squad(*asked, version="1.1"):
    return json.dumps(
        {"version": version, "data": [{"paragraphs": [{"context": CONTEXT, "qas": asked}]}]}
    )


def ask(name="q1", answers=((4, "cat"), (15, "cat ran")), **more):
    answers = [{"answer_start": start, "text": text} for start, text in answers]
    return {"id": name, "question": "Who?", "answers": answers, **more}


def test_squad(tmp_path):
    path = write(tmp_path, squad(ask()), "a.json")
    want = Question("q1", "Who?", CONTEXT, (("cat", 4), ("cat ran", 15)))
    assert read_task("answer", path) == TaskData([want], [])
    plausible = [{"answer_start": 999, "text": "dog"}]
    second = squad(
        ask(is_impossible=False),
        ask("q2", (), is_impossible=True, plausible_answers=plausible),
        ask("q3", ()),
        version="v2.0",
    )
    found = read_task("answer", write(tmp_path, second, "b.json.gz")).examples
    assert found[0] == want and [(q.id, q.answers) for q in found[1:]] == [("q2", ()), ("q3", ())]


UNLABELLED = [
    ("classify", "a.tsv", "sentence\nA b.\n", {}, TaskExample(("A b.",), None)),
    ("classify", "a.tsv", "x\tA b.\n", {"text": 1}, TaskExample(("A b.",), None)),
    ("classify", "a.tsv", "sentence\tlabel\nA\t-\n", {}, TaskExample(("A",), None)),
    ("classify", "a.tsv", "sentence\tlabel\nA\tyes\n", {}, TaskExample(("A",), "yes")),
    ("classify", "a.csv", "text,label\nA,\n", {}, TaskExample(("A",), None)),
    ("similarity", "a.jsonl", '{"text": "A", "label": null}', {}, TaskExample(("A",), None)),
    ("choose", "a", "o\tA\tb\tc\t\n", {}, TaskExample(("A",), None, ("b", "c"))),
    ("choose", "a.jsonl", '{"context": "A", "choices": ["b", "c"]}', {},
     TaskExample(("A",), None, ("b", "c"))),
    ("choose", "a.xml", '<c><item asks-for="cause"><p>A.</p><a1>b</a1><a2>c</a2></item></c>', {},
     TaskExample(("A because",), None, ("b", "c"))),
    ("tag", "a.conll", "A\nb\n", {}, TaggedSentence(("A", "b"), None)),
    ("tag", "a.conll", "A\tO\nb\tO\n", {}, TaggedSentence(("A", "b"), ("O", "O"))),
    ("tag", "a.conllu", "1\tA" + "\t_" * 8, {}, TaggedSentence(("A",), None)),
    ("tag", "a.jsonl", '{"words": ["A"]}', {}, TaggedSentence(("A",), None)),
    ("answer", "a.json", '{"data": [{"paragraphs": [{"context": "A", "qas": '
     '[{"id": "1", "question": "b"}]}]}]}', {}, Question("1", "b", "A", ())),
]  # fmt: skip


@pytest.mark.parametrize("task, name, content, columns, want", UNLABELLED)
def test_without_labels(tmp_path, task, name, content, columns, want):
    path = write(tmp_path, content, name)
    assert read_task(task, path, labelled=False, **columns).examples == [want]
    if (getattr(want, "label", None) or getattr(want, "tags", None)) is None:
        with pytest.raises(ValueError):
            read_task(task, path, **columns)


def test_rows_to_leave_out(tmp_path):
    content = "sentence\tlabel\nA\tyes\nB\t-\nC\tno\n"
    path = write(tmp_path, content, "a.tsv")
    data = read_task("classify", path)
    assert [e.label for e in data.examples] == ["yes", "no"]
    assert data.skipped == [f"{path}, line 3: its label '-' is one to leave out"]
    assert len(read_task("classify", path, drop=()).examples) == 3
    assert len(read_task("classify", path, labelled=False).examples) == 3
    assert len(read_task("classify", path, drop=("yes", "no")).examples) == 1


GOOD = "sentence1\tsentence2\tlabel\na\tb\t1\n"

BAD = [  # task, name, content, where, why, how many good ones beside it
    ("classify", "a.tsv", GOOD + "a\tb\n", "line 3", "has no 'label'", 1),
    ("classify", "a.tsv", GOOD + "a\tb\t1\t2\n", "line 3", "has 4 fields where the header", 1),
    ("classify", "a.tsv", GOOD + "a\t \t1\n", "line 3", "text 'sentence2' is empty", 1),
    ("classify", "a.tsv", GOOD + "a\tb\t \n", "line 3", "its label is empty", 1),
    ("similarity", "a.tsv", GOOD + "\na\tb\tx\n", "line 4", "score must be a number; got 'x'", 1),
    ("similarity", "a.tsv", GOOD + "a\tb\tinf\n", "line 3", "the score must be a number", 1),
    ("classify", "a.csv", 'text,label\n"a\nb",1\n"c"d,1\ne,2\n', "line 4", "not valid CSV", 2),
    ("classify", "a.csv", 'text,label\na,1\n"c,1\ne,2\n', "line 3", "not valid CSV", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{"text"\n', "line 2", "not valid JSON", 1),
    ("classify", "a.jsonl", '[3]\n{"text": "a", "label": 1}', "line 1", "expected a JSON obj", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{"text": 5, "label": 1}', "line 2",
     "text 'text' must be a text; got 5", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{"text": "\\ud800", "label": 1}', "line 2",
     "half of a surrogate pair", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": [1]}', "line 2",
     "its label must be a name", 1),
    ("classify", "a.jsonl", '{"text": "a", "label": 1}\n' + "[" * 100_000, "line 2",
     "not valid JSON", 1),
    ("classify", "a.txt", "1 a\n0 \n", "line 2", "its text is empty", 1),
    ("choose", "a", "o\ta\tb\tc\t2\no\ta\tb\tc\t1\n", "line 1", "index of one of 2 choices", 1),
    ("choose", "a.jsonl", '{"context": "a", "choices": ["b", "c"], "label": 0}\n'
     '{"context": "a", "choices": ["b"], "label": 0}', "line 2", "expected two or more choices", 1),
    ("choose", "a.jsonl", '{"context": "a", "choices": ["b", "c"], "label": 0}\n'
     '{"context": "a", "choices": ["b", "c"], "label": true}', "line 2", "must be the index", 1),
    ("choose", "a", "o\ta\tb\tc\t-1\no\ta\tb\tc\t1\n", "line 1", "choices, from 0; got '-1'", 1),
    ("choose", "a", "o\ta\tb\t0\no\ta\tb\tc\t1\n", "line 1", "expected category, text, two or", 1),
    ("choose", "a", "o\ta\t\tb\t0\no\ta\tb\tc\t1\n", "line 1", "a choice is empty", 1),
    ("choose", "a.xml", COPA.replace('"effect"', '"both"'), "line 10", "expected asks-for", 1),
    ("choose", "a.xml", COPA.replace('ive="1"', 'ive="0"'), "line 4", "got 'cause' and '0'", 1),
    ("choose", "a.xml", COPA.replace("<p>It rained.</p>", ""), "line 10", "expected the texts", 1),
    ("tag", "a.conll", "a\tO\n\nb\tO\nc\nd\tO\n\ne\tO\n", "line 4", "expected 2 columns", 2),
    ("tag", "a.conll", "a\tO\n\nb\tO\n\tO\n", "line 4", "an empty word", 1),
    ("tag", "a.conllu", CONLLU + "\n\n1\tA\n", "line 9", "the ten columns of CoNLL-U", 2),
    ("tag", "a.conllu", CONLLU + "\n\nx\tA" + "\t_" * 8, "line 9", "'x' is not an ID", 2),
    ("tag", "a.conllu", CONLLU + "\n\n1\tA" + "\t_" * 8, "line 9", "'A' has no upos", 2),
    ("tag", "a.jsonl", '{"words": ["a"], "tags": []}\n{"words": ["a"], "tags": ["O"]}', "line 1",
     "a list of 1 tags, one for each word; got 0 tags", 1),
    ("answer", "a.json", squad(ask(), ask("q2", [(5, "cat")])), "question 'q2'",
     "the answer 'cat' is not at character 5 of its context, where 'at ' stands", 1),
    ("answer", "a.json", squad(ask(), ask("q2", [(-3, "at.")])), "question 'q2'",
     "answer_start must be a number", 1),
    ("answer", "a.json", squad(ask(), ask()), "question 'q1'", "the same id", 1),
    ("answer", "a.json", squad(ask(), ask("q2", ())), "question 'q2'", "has no answers", 1),
    ("answer", "a.json", squad(ask(), ask("q2", (), is_impossible=False), version="v2.0"),
     "question 'q2'", "has no answers", 1),
    ("answer", "a.json", squad(ask(), ask("q2", is_impossible=True)), "question 'q2'",
     "has answers and is_impossible", 1),
    ("answer", "a.json", squad(ask(), {"question": "b"}), "article 1, paragraph 1, question 2",
     "its id must be a text", 1),
]  # fmt: skip


@pytest.mark.parametrize("task, name, content, where, why, good", BAD)
def test_bad_rows_stop_or_are_written_down(tmp_path, task, name, content, where, why, good):
    path = write(tmp_path, content, name)
    with pytest.raises(ValueError) as caught:
        read_task(task, path)
    message = str(caught.value)
    assert message.startswith(f"{path}, {where}: ") and why in message and "\n" not in message
    data = read_task(task, path, skip=True)
    assert data.skipped == [message] and len(data.examples) == good


@pytest.mark.parametrize(
    "task, name, content, message",
    [
        ("classify", "a.tsv", "", "no examples in .*a.tsv"),
        ("classify", "a.csv", "text,label\n", "no examples in .*a.csv"),
        ("classify", "a.jsonl", "\n", "no examples in .*a.jsonl"),
        ("classify", "a.jsonl", "{\n[", "none of its 2 rows can be used; the first: .*line 1: not"),
        ("classify", "a.tsv", "text\tlabel\na\n\nb\n", "none of its 2 rows .*line 2: has no 'l"),
        ("classify", "a.tsv", "x\ty\n1\t2\n", "no text columns .*are 'x', 'y'; .*--text"),
        ("classify", "a.tsv", "text\ty\n1\t2\n", "no label column .*columns are .*--label"),
        ("classify", "a.tsv", "text\tlabel\ttext\n1\t2\t3\n", "a.tsv: two columns 'text'"),
        ("classify", "a.txt", b"1 a\n1 \xe4\n", r"a.txt is not UTF-8 .*\(after line 1\)"),
        ("choose", "a.xml", "<a>\n<b>\n</a>", "line 3: not valid XML"),
        ("choose", "a.xml", "<a/>", "no examples in"),
        ("tag", "a.conll", "a\nb\n", "expected words and tags in 2 or more columns .*have 1"),
        ("tag", "a.conll", "\n-DOCSTART- O\n", "no examples in"),
        ("answer", "a.json", '{"data":\n [,]}', "a.json, line 2: not valid JSON"),
        ("answer", "a.json", "[]", "expected SQuAD's form"),
        ("answer", "a.json", '{"data": []}', "no examples in"),
        ("answer", "a.json", '{"data": [{}]}', "article 1: expected an object with a list"),
    ],
)
def test_files_without_any_example(tmp_path, task, name, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_task(task, write(tmp_path, content, name), skip=True)
    assert "\n" not in str(caught.value)


def test_wrong_paths(tmp_path):
    for task in ("classify", "similarity", "choose", "answer", "tag"):
        with pytest.raises(FileNotFoundError, match="no such file: .*absent"):
            read_task(task, str(tmp_path / "absent"))
        with pytest.raises(IsADirectoryError, match="expected a file"):
            read_task(task, str(tmp_path))
        with pytest.raises(ValueError, match=f"no files for the task {task}"):
            read_task(task, [])
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(gzip.compress(b"1 good\n" * 1000)[:-9])
        with pytest.raises(OSError, match="a.jsonl.gz is a damaged or truncated gzip"):
            read_task(task, str(path))


@pytest.mark.parametrize(
    "task, arguments, message",
    [
        ("parse", {}, "task must be one of classify, similarity, choose, answer, tag; got 'parse'"),
        ("classify", {"text": ["a", 1], "label": 0}, "text and label must be all names"),
        ("classify", {"text": 1.5}, "a column must be a name or a number from 0; got 1.5"),
        ("classify", {"text": -1}, "a column must be a name or a number from 0; got -1"),
        ("classify", {"text": [0, 1, 2], "label": 2}, "text must name one or two columns"),
        ("classify", {"text": 0}, r"columns were given by number: .*\(label, a number"),
        ("classify", {"label": 1}, r"columns were given by number: .*\(text, a number"),
        ("classify", {"text": "z"}, "no column 'z'; its columns are 'a', 'label'"),
        ("classify", {"text": 5, "label": 1}, "line 1: expected 6 or more fields; got 2"),
        ("classify", {"drop": "-"}, "drop must be a sequence"),
        ("choose", {"text": "a"}, "must name the column of the text and those of its choices"),
        ("tag", {"label": "upos"}, "label must be a number of a column"),
        ("tag", {"text": [0, 1]}, "text must be one column"),
        ("tag", {"label": 7}, "expected words and tags in 8 or more columns"),
        ("answer", {"label": "x"}, "no columns to choose"),
    ],
)
def test_wrong_arguments(tmp_path, task, arguments, message):
    with pytest.raises(ValueError, match=message):
        read_task(task, write(tmp_path, "a\tlabel\nb\t1\n", "a.tsv"), **arguments)
